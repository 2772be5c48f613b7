package main

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

// fakeEnv makes the test binary a worker; its value says how it behaves, in
// words of which any may be there.
const fakeEnv = "PEERBENCH_FAKE"

func TestMain(m *testing.M) {
	if how, ok := os.LookupEnv(fakeEnv); ok {
		fake(how)
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "worker" && os.Args[2] == "--spin" {
		if err := runWorker(os.Args[2:]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fake answers with made-up times: "slow" takes twice as long, "wrong" turns
// its vectors and texts away, "silent" dies at once, "dies" at the first timed
// request, "spins" never sleeps, "restless" has another speed at each request,
// and ways that are not equally fast.
func fake(how string) {
	is := func(word string) bool { return strings.Contains(how, word) }
	if is("silent") {
		os.Stderr.WriteString("warming up\nmodel.bin: no such file\n")
		os.Exit(1)
	}
	if is("spins") {
		go func() {
			for x := 1.0; ; {
				x = math.Sqrt(x + 1)
			}
		}()
	}
	enc, dec := json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)
	enc.Encode(hello{Peer: "fake", Version: "1"})
	for asked := 1; ; asked++ {
		var q request
		if dec.Decode(&q) == io.EOF {
			return
		}
		var a answer
		switch q.Op {
		case "vectors":
			for _, ids := range q.Batches[0] {
				v := []float32{float32(ids[0]), 1}
				if is("wrong") {
					v[1] = -v[0]
				}
				a.Vectors = append(a.Vectors, v)
			}
		case "greedy":
			for range q.Batches[0] {
				ids := make([]int32, q.Steps)
				if is("wrong") {
					ids[0] = 7
				}
				a.IDs = append(a.IDs, ids)
			}
		case "leads": // prefers 0
			for _, ids := range q.IDs {
				l := make([]float64, len(ids))
				for i, id := range ids {
					l[i] = float64(id)
				}
				a.Leads = append(a.Leads, l)
			}
		default:
			if is("dies") {
				os.Stderr.WriteString("out of memory\n")
				os.Exit(1)
			}
			if is("restless") {
				speed := 1 + 2*float64(asked%2)
				for _, way := range q.Ways {
					took := map[string]float64{"auto": 1, "fine": 1.5, "coarse": 0.75, "threads=1": 1, "threads=2": 0.5, "threads=4": 0.4,
						"reads=1": 1, "reads=2": 0.625, "reads=4": 0.3125}[way] / speed
					t := turn{Ran: ran{Fine: 1, Coarse: 2}}
					for range q.Calls {
						t.Amount, t.Seconds = append(t.Amount, 1), append(t.Seconds, took)
					}
					a.Turns = append(a.Turns, t)
				}
				break
			}
			for _, b := range q.Batches[1:] {
				s := 0.001 * float64(tokensOf(b))
				if is("slow") {
					s *= 2
				}
				a.Amount, a.Seconds = append(a.Amount, float64(tokensOf(b))), append(a.Seconds, s)
			}
		}
		enc.Encode(a)
	}
}

func fakeRunner(name, how string, limit float64) Runner {
	return Runner{Name: name, Argv: []string{selfPath}, Env: []string{fakeEnv + "=" + how}, Limit: limit}
}
