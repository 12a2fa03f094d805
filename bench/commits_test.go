package main

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestReadLog checks that readLog counts the transactions of a write-ahead log and skips frames left from before it
// was restarted.
func TestReadLog(t *testing.T) {
	const page = 512
	header := make([]byte, logHeader)
	binary.BigEndian.PutUint32(header[8:], page)
	copy(header[16:], "saltsalt")
	frame := func(salts string, size uint32) []byte {
		f := make([]byte, frameHeader+page)
		binary.BigEndian.PutUint32(f[4:], size)
		copy(f[8:], salts)
		return f
	}
	whole := bytes.Join([][]byte{header, frame("saltsalt", 0), frame("saltsalt", 7), frame("saltsalt", 8), frame("OLDOLDOL", 9)}, nil)
	for name, c := range map[string]struct {
		log  []byte
		want int
	}{
		"none yet": {nil, 0}, "its header alone": {header, 0}, "two, and one from before": {whole, 2}, "a frame is being written": {whole[:len(header)+3*(frameHeader+page)-1], 1},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := readLog(bytes.NewReader(c.log))
			if err != nil || l.commits != c.want || len(c.log) > 0 && string(l.salts[:]) != "saltsalt" {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}
