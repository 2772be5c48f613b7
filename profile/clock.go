package profile

import "time"

var base = time.Now()

// Now is nanoseconds on the monotonic clock since the process started. It is
// never 0, because a slot that holds 0 was not stamped.
func Now() int64 { return int64(time.Since(base)) + 1 }
