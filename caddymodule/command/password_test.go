package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
)

// TestCommandPasswordInput: one line is the password, and nothing of the rest is read as one.
func TestCommandPasswordInput(t *testing.T) {
	const nothing = "the first line of standard input holds no password"
	long := strings.Repeat("x", passwords.MaxBytes)
	for _, test := range []struct{ name, input, want, err string }{
		{"a line", "secret\n", "secret", ""},
		{"without an end", "secret", "secret", ""},
		{"a DOS line", "secret\r\n", "secret", ""},
		{"two lines", "secret\nsecond\n", "secret", ""},
		{"spaces", "  se cret \n", "  se cret ", ""},
		{"the longest", long + "\n", long, ""},
		{"nothing", "", "", nothing},
		{"an empty line", "\nsecret\n", "", nothing},
	} {
		var prompt bytes.Buffer
		got, err := readPassword(strings.NewReader(test.input), &prompt)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
		if prompt.Len() > 0 {
			t.Errorf("%s: it asks a pipe for %q", test.name, &prompt)
		}
	}
	if cut, err := readPassword(strings.NewReader(strings.Repeat("x", 1<<20)), new(bytes.Buffer)); err != nil || len(cut) <= passwords.MaxBytes {
		t.Errorf("of a mebibyte %d bytes are left, which could pass for a password; %v", len(cut), err)
	}
}
