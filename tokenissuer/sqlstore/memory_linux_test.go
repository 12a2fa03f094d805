package sqlstore

import (
	"os"
	"syscall"
	"testing"
)

// memoryDir returns a directory in memory until the test ends, or one on the disk if the machine has too little memory for the databases
// of tests.
func memoryDir(t testing.TB) string {
	t.Helper()
	const memory, room = "/dev/shm", 1 << 30
	var free syscall.Statfs_t
	if err := syscall.Statfs(memory, &free); err != nil || free.Bavail*uint64(free.Bsize) < room {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "gatehouse-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}
