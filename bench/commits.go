package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Sizes of SQLite's write-ahead log, in bytes (SQLite, WAL-mode File Format).
const (
	logHeader   = 32
	frameHeader = 24
)

// writeAheadLog is what stands in a write-ahead log.
type writeAheadLog struct {
	// salts change when SQLite begins to write the log from its start again.
	salts [8]byte
	// commits is the number of transactions since then.
	commits int
}

// readLog reads a write-ahead log. Frames with other salts are left from before.
func readLog(r io.Reader) (l writeAheadLog, err error) {
	var header [logHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return l, ended(err) // there is none yet
	}
	page := int(binary.BigEndian.Uint32(header[8:]))
	l.salts = [8]byte(header[16:])
	frame := make([]byte, frameHeader+page)
	for {
		if _, err := io.ReadFull(r, frame); err != nil {
			return l, ended(err)
		}
		if [8]byte(frame[8:]) != l.salts {
			return l, nil
		}
		if binary.BigEndian.Uint32(frame[4:]) != 0 { // the size of the database, in the last frame of a transaction
			l.commits++
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// log reads the write-ahead log of a server whose store is SQLite.
func (s *server) log() (l writeAheadLog, err error) {
	err = filepath.WalkDir(s.program.Dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "-wal") {
			return err
		}
		file, err := os.Open(path) //nolint:gosec // ours
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		l, err = readLog(bufio.NewReader(file))
		return err
	})
	return l, err
}

// commitsOf runs a step and returns how many transactions the server has committed meanwhile, each of which waits for the disk. Several
// callers at once can share one. Known: the log did not begin anew meanwhile.
func (b *bench) commitsOf(s *server, step func()) (count int, known bool) {
	before := must(s.log())
	step()
	after := must(s.log())
	return after.commits - before.commits, after.salts == before.salts
}
