package cpu

import (
	"runtime"
	"testing"
	"time"
	"unsafe"
)

// TestTensorsAreApart: whatever sizes are taken, each has zeroed memory of its
// own, at the beginning of a line.
func TestTensorsAreApart(t *testing.T) {
	var r resident
	var taken [][]byte
	for i := range 40 {
		size := []int{1, 64, 100, 300 << 10, 1180 << 10, 4<<20 - 1, 4 << 20, 8<<20 + 7}[i%8]
		mem := r.take(size)
		if len(mem) != size || cap(mem) != size || uintptr(unsafe.Pointer(&mem[0]))%lineBytes != 0 {
			t.Fatalf("%d bytes: %d of %d at %p, expected as many at a multiple of %d", size, len(mem), cap(mem), &mem[0], lineBytes)
		}
		for at, v := range mem {
			if v != 0 {
				t.Fatalf("byte %d of tensor %d is %d before anybody wrote it", at, i, v)
			}
		}
		for at := range mem {
			mem[at] = byte(i + 1)
		}
		taken = append(taken, mem)
	}
	for i, mem := range taken {
		for at, v := range mem {
			if v != byte(i+1) {
				t.Fatalf("byte %d of tensor %d was overwritten by tensor %d", at, i, v-1)
			}
		}
	}
}

// TestSmallModelsTakeLittle: what the first tensor takes from the heap is not
// what a large model does.
func TestSmallModelsTakeLittle(t *testing.T) {
	var r resident
	r.take(1000)
	if r.all > 2*largePage {
		t.Errorf("a tensor of 1000 bytes takes %d", r.all)
	}
}

// Ceilings are sampled from memory that tensors took, and from no other.
func TestSampledMemoryWasTaken(t *testing.T) {
	var r resident
	want := 0
	for _, size := range []int{100, 3 << 20, 5 << 20, slabBytes/2 + 1, 7 << 20, slabBytes/2 - 1} {
		r.take(size)
		want += size
	}
	got := 0
	for _, s := range r.every {
		got += s.bytes
	}
	if got < want || got > want+len(r.every)*lineBytes*6 {
		t.Errorf("%d bytes, expected the %d that were taken", got, want)
	}
	if r.close(); r.slab != nil {
		t.Error("what was left keeps a slab alive")
	}
}

// TestLiveWeights: what is read as the packed weights is all memory that was handed out,
// of slabs and of large matrices, each byte once.
func TestLiveWeights(t *testing.T) {
	var r resident
	sizes := []int{100, 3 << 20, 64, slabBytes / 2, 5 << 20}
	var all [][]byte
	want := 0
	for _, n := range sizes {
		all = append(all, r.take(n))
		want += (n + lineBytes - 1) / lineBytes * lineBytes
	}
	got := 0
	live := r.live()
	for _, mem := range live {
		got += len(mem)
	}
	if got != want {
		t.Errorf("%d bytes in %d parts, expected %d", got, len(live), want)
	}
	for i, mem := range all {
		mem[0], mem[len(mem)-1] = byte(1+i), byte(1+i)
	}
	set := 0
	for _, mem := range live {
		for _, b := range mem {
			if b != 0 {
				set++
			}
		}
	}
	if set != 2*len(sizes) {
		t.Errorf("%d of %d bytes that were set are among them", set, 2*len(sizes))
	}
	runtime.KeepAlive(all)
}

// TestReadsOfWeights: memory that was handed out is read at some rate, by one thread or two.
// Without any there is no rate.
func TestReadsOfWeights(t *testing.T) {
	be, err := New(Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	if r := be.ReadWeights(t.Context(), 1, 0, time.Millisecond); r != 0 {
		t.Errorf("%g bytes/s of no weights", r)
	}
	weights := be.packed.take(5 << 20)
	for _, threads := range []int{1, 2} {
		if r := be.ReadWeights(t.Context(), threads, 2, time.Millisecond); !(r > 0) {
			t.Errorf("%g bytes/s of %d bytes on %d threads", r, len(weights), threads)
		}
	}
	runtime.KeepAlive(weights)
}
