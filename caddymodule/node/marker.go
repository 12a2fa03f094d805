package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// marker is a file in Caddy's data directory with the counters of a database. Every node of the machine on that database writes it.
type marker struct {
	database string         // the absolute path of the database's file; empty: it has none
	identity string         // of the database; empty: it is not known yet
	kept     sqlstore.Marks // what the file holds
	written  time.Time
	failing  bool
}

// markerContent is what a marker's file holds.
type markerContent struct {
	sqlstore.Marks
	// File is the absolute path of the database. It is empty for the database of a server.
	File string `json:"file,omitzero"`
}

// markerPrefix begins the names of the files.
const markerPrefix = "marker-"

func markerDirectory() string { return filepath.Join(caddy.AppDataDir(), "oauth") }

func (m *marker) path() string {
	return filepath.Join(markerDirectory(), markerPrefix+m.identity+".json")
}

func readMarker(path string) (content markerContent, err error) {
	bytes, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(bytes, &content)
	}
	return content, err
}

// open reads the file of the database with this identity, and returns the marks that it holds.
func (m *marker) open(identity string) sqlstore.Marks {
	m.identity, m.written = identity, time.Time{}
	found, err := readMarker(m.path())
	m.kept = found.Marks
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log().Error("the marker cannot be read: had the database been put back to an older state, nobody would know", zap.Error(err))
	}
	return m.kept
}

// update writes the marks, unless the file has them. It logs the first of several failures.
func (m *marker) update(marks sqlstore.Marks, now time.Time) {
	if marks == m.kept {
		return
	}
	m.written = now
	err := m.write(marks)
	if err != nil && !m.failing {
		log().Error("the marker cannot be written: a database that is put back to an older state will not be noticed", zap.Error(err))
	}
	m.failing = err != nil
}

// write replaces the file as a whole. It keeps a file that another node of this machine has written with later marks.
func (m *marker) write(marks sqlstore.Marks) (err error) {
	if found, err := readMarker(m.path()); err == nil && isFarther(found.Marks, marks) {
		m.kept = marks
		return nil
	}
	directory := markerDirectory()
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(directory, ".marker-*") // for the owner alone
	if err != nil {
		return err
	}
	err = errors.Join(json.MarshalWrite(file, markerContent{marks, m.database}), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), m.path())
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	m.kept = marks
	return syncDirectory(directory)
}

// isFarther reports whether a is beyond b.
func isFarther(a, b sqlstore.Marks) bool {
	return a.Revocations >= b.Revocations && a.Keys >= b.Keys && (a.Revocations > b.Revocations || a.Keys > b.Keys)
}

// syncDirectory makes the names of new files durable.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// checkEmptied refuses an empty file for which there is a marker: a database that has lost all data would pass for a new one. An
// interrupted first start leaves an empty file and no marker.
func checkEmptied(path string) error {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return nil // opening it reports the error
	}
	if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 0 {
		return nil // likewise
	}
	files, err := os.ReadDir(markerDirectory())
	if err != nil {
		return nil // there are no markers
	}
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), markerPrefix) {
			continue
		}
		content, err := readMarker(filepath.Join(markerDirectory(), file.Name()))
		if err == nil && content.File != "" && content.File == absolute(path) {
			return fmt.Errorf("the database %s is empty, and %s tells that it was not: "+
				"put a backup in its place, or remove the empty file to begin with nothing", path, file.Name())
		}
	}
	return nil
}

// absolute returns the absolute path, or "" for an empty one.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	return path
}
