//go:build !linux

package int8

import "time"

// threadTime is unknown here; 0 makes the wall's time count.
func threadTime() time.Duration { return 0 }
