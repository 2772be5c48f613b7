package precision

// Texts are what precision is measured with: short and long ones, several
// languages, code and numbers.
var Texts = []string{
	"rain",
	"A stitch in time saves nine.",
	"The quick brown fox jumps over the lazy dog.",
	"How do I reset the password of my account?",
	"The boats had swung round to face the hills, and nobody on the pier had noticed it yet.",
	"Interest rates were left unchanged on Thursday, as most economists had expected.",
	"def add(a, b):\n    return a + b",
	"SELECT name, count(*) FROM orders WHERE total > 99.5 GROUP BY name;",
	"Der Zug nach München fährt heute von Gleis neun ab.",
	"Il pleut sur la ville depuis trois jours.",
	"El gato duerme al sol en la ventana de la cocina.",
	"今日は天気がいいですね。",
	"Water boils at 100 degrees Celsius at sea level, and at 93 degrees at 2,000 metres.",
	"An enzyme lowers the activation energy of a reaction without being consumed by it, which is why a small amount of it can turn over a large amount of substrate.",
	"Returns are free within 30 days. Keep the receipt, and pack the item as you got it.",
	"1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144",
	"error: connection refused (os error 111) while connecting to 10.0.0.7:5432",
	"The committee shall meet at least twice a year; its minutes shall be kept by the secretary and be open to every member.",
	"What is the capital of Australia?",
	"Canberra became the capital of Australia in 1913, as a compromise between Sydney and Melbourne.",
	"Preheat the oven to 180 degrees. Beat the eggs with the sugar until pale, fold in the flour, and bake for 35 minutes.",
	"Happy birthday! I hope that you have a wonderful day and that we can meet soon.",
	"Transformers process all tokens of a text at once, and attention lets each of them look at every other one; positions are told apart by rotating queries and keys.",
	"no",
}
