package calib

// Model is the work of a model as far as the choice of a device depends on it.
type Model struct {
	Work         // on the CPU
	Layers int   // of the model
	Bytes  int64 // of the weights that a run reads, in the file's types
	Total  int64 // bytes of all weights
	Most   int   // tokens of one run on the card
}

// Demand is how much a program is going to ask of a model. The zero value is unknown.
type Demand struct {
	Texts  int // that are embedded, ranked or scored, or prompts
	Tokens int // of all texts
	Decode int // tokens that are generated one after another
}

// Estimate are the times of a demand on the CPU and on a card, in seconds.
type Estimate struct {
	CPU, Card float64
	Start     float64 // part of Card: opening it and copying the weights
}

// Wins reports whether the card is faster.
func (e Estimate) Wins() bool { return e.Card < e.CPU }

// Choose estimates a demand on the CPU and on a card. If once is set, the card must be
// opened and filled with weights for this demand; otherwise it serves many such demands.
// The CPU packs weights meanwhile, which is not counted: it takes much less time.
func Choose(c *Costs, card *Card, m Model, d Demand, once bool, precision string) (e Estimate) {
	if d.Texts > 0 {
		b := Batch{Seqs: d.Texts, Tokens: max(d.Tokens, d.Texts), Longest: (max(d.Tokens, d.Texts) + d.Texts - 1) / d.Texts}
		e.CPU = c.OnFine(m.Work, b, fineRun)
		if c.Workers > 1 && d.Texts > 1 {
			e.CPU = min(e.CPU, c.OnCoarse(m.Work, b, fineRun/2))
		}
		e.Card = card.run(m, b.Tokens, precision)
	}
	e.CPU += float64(d.Decode) * c.row(m.Work)
	e.Card += float64(d.Decode) * card.run(m, 1, precision)
	if once {
		e.Start = card.Start + float64(m.Total)/card.Copy
		e.Card += e.Start
	}
	return e
}

// fineRun is the number of tokens of a run on the CPU.
const fineRun = 512

// row is the time of a run of one token. Its products do not fill a group of rows, so
// that it takes the time to fetch the weights.
func (c *Costs) row(w Work) float64 {
	fetch := c.weights(w) / float64(c.Cores)
	if c.Workers == 1 {
		return fetch + w.FLOPs*c.FLOP
	}
	return c.Fork + float64(w.Barriers)*c.Barrier + fetch + w.FLOPs*c.FLOP/c.Fine
}

// run is the time of some tokens on the card.
func (c *Card) run(m Model, tokens int, precision string) float64 {
	runs := 1
	if m.Most > 0 {
		runs = (tokens + m.Most - 1) / m.Most
	}
	return float64(runs)*(c.Run+float64(m.Layers)*c.Layer+float64(m.Bytes)/c.Read) + float64(tokens)*m.FLOPs/c.FLOPs[precision]
}
