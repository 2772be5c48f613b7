package main

// reading is the bar of data that are read before training.
type reading struct {
	std streams
	bar *progress
}

func newReading(std streams) *reading { return &reading{std: std.resultsLater()} }

// read says that so many bytes of all are done.
func (r *reading) read(done, total int64) {
	if r.bar == nil {
		r.bar = newBytes(total, "reading data", r.std)
	}
	if r.bar.set(done); done == total {
		r.finish()
	}
}

// finish takes the bar away.
func (r *reading) finish() {
	r.bar.finish()
	r.bar = nil
}
