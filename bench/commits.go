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

// Sizes in SQLite's write-ahead log, in bytes (SQLite, WAL-mode File Format).
const (
	logHeader   = 32
	frameHeader = 24
)

// writeAheadLog describes the content of a write-ahead log.
type writeAheadLog struct {
	// salts change when SQLite starts to write the log from its beginning again.
	salts [8]byte
	// commits is the number of transactions since then.
	commits int
}

// readLog reads a write-ahead log. It stops at frames with other salts, which are left from before.
func readLog(r io.Reader) (l writeAheadLog, err error) {
	var header [logHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return l, ended(err) // the log does not exist yet
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
		if binary.BigEndian.Uint32(frame[4:]) != 0 { // the last frame of a transaction holds the size of the database
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
		file, err := os.Open(path) //lint:ignore gosec our own path
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		l, err = readLog(bufio.NewReader(file))
		return err
	})
	return l, err
}

// commitsOf runs a step and returns how many transactions the server has committed meanwhile. Each waits for the
// disk. Several concurrent callers can share one. It reports known as false if the log was restarted meanwhile.
func (b *bench) commitsOf(s *server, step func()) (count int, known bool) {
	before := must(s.log())
	step()
	after := must(s.log())
	return after.commits - before.commits, after.salts == before.salts
}
