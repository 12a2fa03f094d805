package tokenissuer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a reader can keep in mind: a room of so many files and lines, and files that hold one thing. The lines are about 4,000 and 300.
const (
	maxRoomFiles = 30
	maxRoomLines = 4100
	maxFileLines = 310
)

// largeRooms and largeFiles are those beyond that, and why they still are.
var (
	largeRooms = map[string]string{}
	largeFiles = map[string]string{}
)

// TestRoomsAndFilesAreSmall, of the product. What only tests use is not counted.
func TestRoomsAndFilesAreSmall(t *testing.T) {
	for path, p := range goList(t) {
		name, ours := strings.CutPrefix(path, house)
		if !ours || rooms[name].tests {
			continue
		}
		files, lines := 0, 0
		paths, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			n := bytes.Count(text, []byte("\n"))
			files, lines = files+1, lines+n
			wantSize(t, name+"/"+filepath.Base(path), n > maxFileLines, largeFiles, "%d lines", n)
		}
		wantSize(t, name, files > maxRoomFiles || lines > maxRoomLines, largeRooms, "%d files with %d lines", files, lines)
	}
}

func wantSize(t *testing.T, name string, large bool, known map[string]string, format string, size ...any) {
	t.Helper()
	switch cause := known[name]; {
	case large && cause == "":
		t.Errorf("%s has "+format+": take it apart", append([]any{name}, size...)...)
	case !large && cause != "":
		t.Errorf("%s has "+format+": take it off the list", append([]any{name}, size...)...)
	}
}
