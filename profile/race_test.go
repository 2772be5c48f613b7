//go:build race

package profile

// raceDetector has memory of its own, which nobody else owns.
const raceDetector = true
