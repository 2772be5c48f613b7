package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// topology is the machine's sockets, cores per socket and threads per core, as lscpu
// has them; "" where the system does not tell.
func topology() string { return topologyOf(os.DirFS("/sys/devices/system/cpu")) }

func topologyOf(dir fs.FS) string {
	sockets, cores, threads := map[string]bool{}, map[string]bool{}, 0
	found, _ := fs.Glob(dir, "cpu[0-9]*/topology") // the pattern is sound
	for _, at := range found {
		socket, err1 := fs.ReadFile(dir, at+"/physical_package_id")
		core, err2 := fs.ReadFile(dir, at+"/core_id")
		if err1 != nil || err2 != nil {
			continue
		}
		s := strings.TrimSpace(string(socket))
		sockets[s], cores[s+"/"+strings.TrimSpace(string(core))] = true, true
		threads++
	}
	if threads == 0 {
		return ""
	}
	return fmt.Sprintf("sockets: %d, cores per socket: %d, threads per core: %d", len(sockets), len(cores)/len(sockets), threads/len(cores))
}
