//go:build !linux

package sqlstore

import "testing"

func memoryDir(t testing.TB) string { return t.TempDir() }
