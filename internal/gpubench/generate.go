package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"hotpath/internal/engine"
	"hotpath/internal/sample"
)

// skipped is the number of steps of a generation that are not timed.
const skipped = 8

// generate times the time to the first token, or a generation's mean step behind the
// first nine: a stream may hold several tokens, so single steps are not seen.
func (b *bench) generate(e *engine.Engine, ids [][]int32, what string) (times []float64, err error) {
	most, least, warmUps := 1, 4, 1
	if what == "decode" {
		most, least, warmUps = 128, 2, 0
	}
	b.ids = 0
	hash := fnv.New64a()
	for end := time.Now().Add(b.budget); len(times) < b.rounds+warmUps && (len(times) < least || time.Now().Before(end)); {
		var streams []*engine.Stream
		start := time.Now()
		for _, p := range ids {
			s, err := e.Generate(context.Background(), engine.Request{Prompt: p, MaxTokens: most, Sample: sample.Params{}})
			if err != nil {
				return nil, err
			}
			streams = append(streams, s)
		}
		var warm, last time.Time
		n := 0
		for ; ; n++ {
			ended := 0
			for _, s := range streams {
				token, ok := s.Next()
				if ok && b.ids == 0 {
					binary.Write(hash, binary.LittleEndian, token)
				}
				if !ok {
					ended++
					if s.Err() != nil {
						return nil, s.Err()
					}
				}
			}
			if ended > 0 {
				break
			}
			if last = time.Now(); n == skipped {
				warm = last
			}
		}
		b.ids = hash.Sum64()
		switch {
		case what == "prefill":
			times = append(times, last.Sub(start).Seconds())
		case n > skipped+1:
			times = append(times, step(start, warm, last, n))
		default:
			return nil, fmt.Errorf("%d tokens until a sequence ended, expected more than %d", n, skipped+1)
		}
	}
	return times[warmUps:], nil
}

// step is the mean step of n tokens of which the last came at last, and the last that
// is skipped at warm. If the reader slept until many of them were there, that would be
// too short: then it is the whole generation's, prefill included. Of a short prompt,
// prefill adds less than 0.15 to a whole generation's mean.
func step(start, warm, last time.Time, n int) float64 {
	whole, timed := last.Sub(start).Seconds()/float64(n), last.Sub(warm).Seconds()/float64(n-1-skipped)
	if timed < 0.85*whole {
		return whole
	}
	return timed
}
