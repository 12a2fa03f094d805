package sqlstore

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite accesses files through a table of functions, its VFS. This file puts a VFS in front of the operating system's, for all files
// that the process opens. Below the directory of a disk it records the operations of SQLite, and can make them fail.

// disk is a directory whose writes are recorded.
type disk struct {
	dir string

	mu    sync.Mutex
	known map[string]bool
	done  []operation // the operations so far, in order
	// refuse decides about the next operation: an SQLite result code other than SQLITE_OK makes it fail.
	refuse func(operation) int32
}

// operation changes the content of a disk or makes it durable, or is a note of a test.
type operation struct {
	kind   operationKind
	name   string // of the file, without its directory
	offset int64  // of written; the size of truncated
	data   []byte // of written and found
	names  bool   // of deleted: the directory is synced too
	note   any    // of noted
}

type operationKind string

const (
	found     operationKind = "found" // a file that existed before SQLite opened it
	created   operationKind = "created"
	written   operationKind = "written"
	truncated operationKind = "truncated"
	synced    operationKind = "synced"
	deleted   operationKind = "deleted"
	noted     operationKind = "noted"
)

// on returns the content of a file after the operation.
func (o operation) on(content []byte) []byte {
	end := int(o.offset) + len(o.data)
	switch {
	case o.kind == truncated && len(content) > end:
		return content[:end]
	case len(content) < end:
		content = append(content, make([]byte, end-len(content))...)
	}
	copy(content[o.offset:], o.data)
	return content
}

// watchDisk starts recording what SQLite does below a directory.
func watchDisk(t *testing.T, dir string) *disk {
	t.Helper()
	shim.install.Do(installShim)
	d := &disk{dir: dir, known: make(map[string]bool)}
	shim.mu.Lock()
	defer shim.mu.Unlock()
	shim.disks[dir] = d
	t.Cleanup(func() {
		shim.mu.Lock()
		defer shim.mu.Unlock()
		delete(shim.disks, dir)
	})
	return d
}

// remark adds a note between the operations.
func (d *disk) remark(note any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, operation{kind: noted, note: note})
}

// refuseBy makes operations fail as refuse says; nil: none.
func (d *disk) refuseBy(refuse func(operation) int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = refuse
}

// carryOut does an operation unless it is refused, and records it if it succeeded. Operations run one at a time, which keeps the record
// in order.
func (d *disk) carryOut(o operation, do func() int32) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		if code := d.refuse(o); code != sqlite3.SQLITE_OK {
			return code
		}
	}
	code := do()
	if code == sqlite3.SQLITE_OK {
		d.done = append(d.done, o)
	}
	return code
}

// openFile opens a file, and records the first opening of an existing one.
func (d *disk) openFile(path string, do func() int32) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := filepath.Base(path)
	o := operation{kind: found, name: name}
	if !d.known[name] {
		// This process does not have the file open. Otherwise closing this reader would drop its locks.
		content, err := os.ReadFile(path)
		o.data = content
		if errors.Is(err, fs.ErrNotExist) {
			o.kind = created
		}
	} else if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		o.kind, d.known[name] = created, false
	}
	code := do()
	if code == sqlite3.SQLITE_OK && !d.known[name] {
		d.done = append(d.done, o)
		d.known[name] = true
	}
	return code
}

// shim is the state of the VFS functions, which C refers to by address.
var shim struct {
	install sync.Once
	below   *sqlite3.Tsqlite3_vfs // the operating system's

	mu    sync.Mutex
	disks map[string]*disk
	files map[uintptr]file // the open ones below a disk
	// methods are our functions for a file, by the address of the functions that they wrap.
	methods map[uintptr]uintptr
}

type file struct {
	disk  *disk
	name  string
	below *sqlite3.Tsqlite3_io_methods
}

type (
	openFunction     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	deleteFunction   = func(tls *libc.TLS, vfs, name uintptr, sync int32) int32
	writeFunction    = func(tls *libc.TLS, file, from uintptr, length int32, offset sqlite3.Tsqlite3_int64) int32
	truncateFunction = func(tls *libc.TLS, file uintptr, size sqlite3.Tsqlite3_int64) int32
	syncFunction     = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// at returns the value at an address of C.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// function returns the function whose address is in a table of C. address is the inverse.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }

func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// copyForC returns a copy in C memory, which C may keep.
func copyForC[T any](tls *libc.TLS, of *T) *T {
	c := at[T](sqlite3.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(*of))))
	*c = *of
	return c
}

func installShim() {
	tls := libc.NewTLS()
	defer tls.Close()
	shim.disks, shim.files, shim.methods = make(map[string]*disk), make(map[uintptr]file), make(map[uintptr]uintptr)
	shim.below = at[sqlite3.Tsqlite3_vfs](sqlite3.Xsqlite3_vfs_find(tls, 0))
	vfs := copyForC(tls, shim.below)
	name, err := libc.CString("faults")
	if err != nil {
		panic(err)
	}
	vfs.FzName, vfs.FxOpen, vfs.FxDelete = name, address[openFunction](shimOpen), address[deleteFunction](shimDelete)
	if code := sqlite3.Xsqlite3_vfs_register(tls, uintptr(unsafe.Pointer(vfs)), 1); code != sqlite3.SQLITE_OK {
		panic(code)
	}
}

// diskOf returns the disk that contains a path, or nil.
func diskOf(path string) *disk {
	shim.mu.Lock()
	defer shim.mu.Unlock()
	return shim.disks[filepath.Dir(path)]
}

func shimOpen(tls *libc.TLS, _, name, opened uintptr, flags int32, out uintptr) int32 {
	open, below := function[openFunction](shim.below.FxOpen), uintptr(unsafe.Pointer(shim.below))
	var d *disk
	var path string
	if name != 0 { // a temporary file has no name
		path = libc.GoString(name)
		d = diskOf(path)
	}
	if d == nil {
		return open(tls, below, name, opened, flags, out)
	}
	code := d.openFile(path, func() int32 { return open(tls, below, name, opened, flags, out) })
	if code == sqlite3.SQLITE_OK {
		stepIn(tls, opened, file{disk: d, name: filepath.Base(path)})
	}
	return code
}

// stepIn wraps the functions of an open file.
func stepIn(tls *libc.TLS, opened uintptr, f file) {
	shim.mu.Lock()
	defer shim.mu.Unlock()
	table := &at[sqlite3.Tsqlite3_file](opened).FpMethods
	f.below = at[sqlite3.Tsqlite3_io_methods](*table)
	if shim.methods[*table] == 0 {
		ours := copyForC(tls, f.below)
		ours.FxWrite = address[writeFunction](shimWrite)
		ours.FxTruncate = address[truncateFunction](shimTruncate)
		ours.FxSync = address[syncFunction](shimSync)
		shim.methods[*table] = uintptr(unsafe.Pointer(ours))
	}
	shim.files[opened] = f
	*table = shim.methods[*table]
}

func fileOf(opened uintptr) file {
	shim.mu.Lock()
	defer shim.mu.Unlock()
	return shim.files[opened]
}

func shimDelete(tls *libc.TLS, _, name uintptr, sync int32) int32 {
	path := libc.GoString(name)
	do := func() int32 {
		return function[deleteFunction](shim.below.FxDelete)(tls, uintptr(unsafe.Pointer(shim.below)), name, sync)
	}
	if d := diskOf(path); d != nil {
		return d.carryOut(operation{kind: deleted, name: filepath.Base(path), names: sync != 0}, do)
	}
	return do()
}

func shimWrite(tls *libc.TLS, opened, from uintptr, length int32, offset sqlite3.Tsqlite3_int64) int32 {
	f := fileOf(opened)
	data := bytes.Clone(unsafe.Slice(at[byte](from), length))
	return f.disk.carryOut(operation{kind: written, name: f.name, offset: offset, data: data}, func() int32 {
		return function[writeFunction](f.below.FxWrite)(tls, opened, from, length, offset)
	})
}

func shimTruncate(tls *libc.TLS, opened uintptr, size sqlite3.Tsqlite3_int64) int32 {
	f := fileOf(opened)
	return f.disk.carryOut(operation{kind: truncated, name: f.name, offset: size}, func() int32 {
		return function[truncateFunction](f.below.FxTruncate)(tls, opened, size)
	})
}

func shimSync(tls *libc.TLS, opened uintptr, flags int32) int32 {
	f := fileOf(opened)
	return f.disk.carryOut(operation{kind: synced, name: f.name}, func() int32 {
		return function[syncFunction](f.below.FxSync)(tls, opened, flags)
	})
}
