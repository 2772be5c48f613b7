package experiment

// Place is the arm that runs j-th in a round of n arms. Rounds 0 and 1 mirror each
// other (A B C, C B A), so do 2 and 3, and so on, and each pair begins with another
// arm. So a drift of the machine's speed, and the influence of the arm before,
// affect all arms alike.
func Place(round, j, n int) int {
	if round%2 == 1 {
		j = n - 1 - j
	}
	return (j + round/2) % n
}
