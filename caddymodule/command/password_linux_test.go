package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCommandPasswordAtATerminal: whoever sits at a terminal is told that a password is awaited, and one line of it is read.
func TestCommandPasswordAtATerminal(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	if _, err := io.WriteString(keyboard, "typed secret\nnot this\n"); err != nil {
		t.Fatal(err)
	}
	var prompt bytes.Buffer
	password, err := readPassword(terminal, &prompt)
	if err != nil || password != "typed secret" {
		t.Errorf("read %q, %v", password, err)
	}
	if got := prompt.String(); got != "Password: \n" {
		t.Errorf("it asked %q", got)
	}
}

// TestCommandAsksForAPasswordTwice at a terminal: nobody sees what they type. Nothing typed means none, and is asked once.
func TestCommandAsksForAPasswordTwice(t *testing.T) {
	const once, twice = "Password (nothing: none): \n", "Password (nothing: none): \nThe same again: \n"
	for name, c := range map[string]struct{ typed, want, prompt, err string }{
		"the same":    {"typed secret\ntyped secret\n", "typed secret", twice, ""},
		"a slip":      {"typed secret\ntyped secrte\n", "", twice, "the two passwords differ"},
		"then none":   {"typed secret\n\n", "", twice, "the two passwords differ"},
		"none at all": {"\n", "", once, ""},
	} {
		t.Run(name, func(t *testing.T) {
			keyboard, terminal := openTerminal(t)
			if _, err := io.WriteString(keyboard, c.typed); err != nil {
				t.Fatal(err)
			}
			var prompt bytes.Buffer
			got, err := askPassword(terminal, &prompt)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err || prompt.String() != c.prompt {
				t.Errorf("read %q, %v; it asked %q", got, err, &prompt)
			}
		})
	}
}

// openTerminal returns both ends of a pseudo-terminal.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return keyboard, terminal
}
