package machine

import (
	"context"
	"errors"
	"testing"

	"hotpath/internal/kernel/isa"
)

func TestMeasureCeilings(t *testing.T) {
	c, err := MeasureCeilings(context.Background(), 0)
	if err != nil || c.FLOPs <= 0 || c.Bytes <= 0 || c.Lanes != min(isa.Threads(), isa.Host().Cores) {
		t.Fatalf("%+v, %v", c, err)
	}
	if c.Lanes > 1 && (c.One == nil || c.One.FLOPs <= 0 || c.One.Bytes <= 0 || c.One.Lanes != 1) {
		t.Errorf("one lane: %+v", c.One)
	}
	if one := c.One; one != nil && (one.FLOPs > c.FLOPs || one.Bytes > c.Bytes) {
		t.Errorf("one lane does %+v, all together only %+v", *one, c)
	}
	for class := range c.Class {
		if c.One != nil && c.One.Class[class] <= 0 {
			t.Errorf("class %s was not measured with one lane", class)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := MeasureCeilings(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}
