//go:build !amd64

package profile

const hasWide = false

func addStepWide(*batch, int, uint, []laneSum) (bad, old bool) { panic("not called") }
