package plan

// Join computes shares of the run that the slot's worker is at, until the run ends. It
// returns at once if there is no such run, or no room in it. Any goroutine may call it,
// until the session is closed.
func (sl *Slot) Join() {
	for _, j := range sl.joins {
		if j.Left() > 0 {
			j.Join()
			return
		}
	}
}

// Left is the part of the run at hand that each of its workers has before it, 0 to 1; 0 if
// it cannot be joined.
func (sl *Slot) Left() (left float64) {
	for _, j := range sl.joins {
		left = max(left, j.Left())
	}
	return left
}
