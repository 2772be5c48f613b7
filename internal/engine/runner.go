package engine

import (
	"context"

	"hotpath/internal/graph"
	"hotpath/internal/kv"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// runner is a session with its IO memory by name, and the ragged batch that is
// being put together in it. Views of ports that the program lacks are nil.
type runner struct {
	sess *plan.Session
	max  tensor.Bind
	bind tensor.Bind // of the batch so far

	tokens, pos   []int32 // [T]
	length        []int32 // [T]
	qStart        []int32 // [S+1]
	slots         []int32 // [T]
	kvLen         []int32 // [S]
	table         []int32 // [S,maxBlocks]
	maxBlocks     int
	rows, targets []int32   // [R]
	out           []float32 // [S,Dim], [R,V] or [R]
	width         int       // of a row of out
}

// newRunner compiles a graph and binds a session.
func (e *Engine) newRunner(ctx context.Context, name string, g *graph.Graph, p *model.Ports, out *graph.Value, o plan.CompileOptions, labels plan.ProfileLabels) (*runner, error) {
	o.Invariant = o.Invariant || e.opts.Invariant
	prog, err := plan.Compile(name, g, e.be, plan.Buckets(e.be, g.Max), o)
	if err != nil {
		return nil, err
	}
	return e.newSession(ctx, prog, p, out, plan.BindOptions{}, labels)
}

func (e *Engine) newSession(ctx context.Context, prog *plan.Program, p *model.Ports, out *graph.Value, o plan.BindOptions, labels plan.ProfileLabels) (*runner, error) {
	if !o.Serial && e.opts.Workers > 0 {
		o.Workers = e.opts.Workers
	}
	sess, err := plan.NewSession(ctx, prog, e.weights, o)
	if err != nil {
		return nil, err
	}
	labels.Model = e.cfg.Name
	if err := sess.Attach(e.opts.Recorder, labels); err != nil {
		_ = sess.Close()
		return nil, err
	}
	if e.opts.Recorder != nil {
		e.opts.Recorder.SetMemory("weights", e.weights.Bytes())
		e.opts.Recorder.SetMemory(profile.HeapWeights, e.weights.HeapBytes())
	}
	r := &runner{sess: sess, max: prog.Graph.Max, out: sess.F32(out), width: out.Shape.RowLen()}
	for _, v := range []struct {
		dst  *[]int32
		port *graph.Value
	}{
		{&r.tokens, p.Tokens}, {&r.pos, p.Pos}, {&r.length, p.Length}, {&r.qStart, p.QStart}, {&r.slots, p.Slots},
		{&r.kvLen, p.KVLen}, {&r.table, p.BlockTable}, {&r.rows, p.Rows}, {&r.targets, p.Targets},
	} {
		if v.port != nil {
			*v.dst = sess.I32(v.port)
		}
	}
	if p.BlockTable != nil {
		r.maxBlocks = p.BlockTable.Shape.RowLen()
	}
	e.keep(r)
	return r, nil
}

// reset begins an empty batch.
func (r *runner) reset() {
	r.bind = tensor.Bind{}
	r.qStart[0] = 0
}

// add puts tokens at positions from..., one sequence more; its text has length
// tokens in all.
func (r *runner) add(tokens []int32, from, length int) {
	t, s := r.bind.T, r.bind.S
	copy(r.tokens[t:], tokens)
	if r.pos != nil {
		for i := range tokens {
			r.pos[t+i] = int32(from + i)
		}
	}
	if r.length != nil {
		for i := range tokens {
			r.length[t+i] = int32(length)
		}
	}
	r.bind.T += len(tokens)
	r.bind.S++
	r.qStart[s+1] = int32(r.bind.T)
}

// addCached is add for a program with a KV cache: tokens follow what seq
// holds. On an error the batch is as before.
func (r *runner) addCached(seq *kv.Sequence, tokens []int32, length int) error {
	from := seq.Len()
	if err := seq.Append(tokens, r.slots[r.bind.T:]); err != nil {
		return err
	}
	s := r.bind.S
	r.kvLen[s] = int32(seq.Len())
	row := r.table[s*r.maxBlocks : (s+1)*r.maxBlocks]
	clear(row[copy(row, seq.Table()):])
	r.add(tokens, from, length)
	return nil
}

// want asks for a row of the output for token t of the batch.
func (r *runner) want(t int) {
	r.rows[r.bind.R] = int32(t)
	r.bind.R++
}

// row is the output's row i.
func (r *runner) row(i int) []float32 { return r.out[i*r.width : (i+1)*r.width] }

// run runs the batch. A panic below becomes an error.
func (r *runner) run(ctx context.Context) (err error) {
	defer Guard(&err)
	return r.sess.Run(ctx, r.bind)
}
