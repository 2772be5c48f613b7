package weights

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Opening a directory allocates at most the sizes of its files and 256 KiB,
// whatever they hold, and whether it succeeds or not. The tables of 16384
// fields are most of that constant.
func TestOpenAllocation(t *testing.T) {
	const slack = 256 << 10
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return "{" + b.String() + `"":0}`
	}
	tiny := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},`, i)
		}
		header := "{" + b.String()[:b.Len()-1] + "}"
		return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header
	}
	shards := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":"model.safetensors",`, i)
		}
		return `{"weight_map":{` + b.String()[:b.Len()-1] + "}}"
	}
	const million = 1 << 20
	for name, files := range map[string]map[string]string{
		"plain":          {"config.json": `{"model_type":"bert"}`},
		"fields":         {"config.json": fields(maxFields - 1)},
		"too many":       {"config.json": fields(200_000)},
		"duplicates":     {"config.json": "{" + strings.Repeat(`"a":0,`, maxFields-1) + `"a":0}`},
		"numbers":        {"config.json": `{"a":[` + strings.Repeat("0,", million) + "0]}"},
		"long string":    {"config.json": `{"model_type":"` + strings.Repeat("x", million) + `"}`},
		"long key":       {"config.json": `{"` + strings.Repeat("x", million) + `":1}`},
		"digits":         {"config.json": `{"hidden_size":` + strings.Repeat("1", million) + `}`},
		"deep":           {"config.json": strings.Repeat(`{"a":`, million/5)},
		"cut":            {"config.json": `{"a":"` + strings.Repeat("x", million)},
		"not JSON":       {"config.json": strings.Repeat("x", million)},
		"escapes":        {"config.json": `{"a":"` + strings.Repeat(`\u0041`, million/6) + `"}`},
		"tokenizer":      {"config.json": "{}", "tokenizer.json": strings.Repeat("x", 3*million), "tokenizer_config.json": `{"chat_template":"` + strings.Repeat("x", million) + `"}`},
		"modules":        {"config.json": "{}", "modules.json": "[" + strings.Repeat("{},", million/3) + "{}]"},
		"module's type":  {"config.json": "{}", "modules.json": `[{"type":"` + strings.Repeat("x", million) + `"}]`},
		"tensors":        {"config.json": "{}", "model.safetensors": tiny(50_000)},
		"index":          {"config.json": "{}", "one/model.safetensors": "", "model.safetensors.index.json": shards(100_000)},
		"index, no file": {"config.json": "{}", "model.safetensors.index.json": `{"weight_map":{` + strings.Repeat(`"":"x",`, million/7) + `"":"x"}}`},
	} {
		dir, total := t.TempDir(), 0
		for file, data := range files {
			write(t, filepath.Join(dir, file), []byte(data))
			total += len(data)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := Open(dir)
		if err == nil {
			s.HF().Config.StringOr("model_type", "")
			s.HF().Config.IntOr("hidden_size", 1)
			s.Has("x")
			s.Close()
		}
		runtime.ReadMemStats(&after)
		if n := int(after.TotalAlloc - before.TotalAlloc); n > total+slack {
			t.Errorf("%s: %d bytes allocated for files of %d (%v)", name, n, total, err)
		}
	}
}
