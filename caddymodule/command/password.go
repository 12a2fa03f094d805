package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
)

// passwordFlag adds --password-stdin. A password is never a flag: other users of the machine can read those, and the
// shell remembers them.
func passwordFlag(cmd *cobra.Command, fromInput *bool) {
	cmd.Flags().BoolVar(fromInput, "password-stdin", false, "Read the password from the first line of standard input")
}

// askPassword asks for a password at a terminal, twice, because it is not echoed. It returns "" if nothing was typed, or if in is not a
// terminal.
func askPassword(in io.Reader, prompt io.Writer) (string, error) {
	terminal, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return "", nil
	}
	password, err := promptPassword(terminal, prompt, "Password (nothing: none): ")
	if err != nil || password == "" {
		return "", err
	}
	again, err := promptPassword(terminal, prompt, "The same again: ")
	if err != nil {
		return "", err
	}
	if again != password {
		return "", errors.New("the two passwords differ")
	}
	return password, nil
}

// promptPassword reads a line at a terminal without echo.
func promptPassword(terminal *os.File, prompt io.Writer, question string) (string, error) {
	_, _ = fmt.Fprint(prompt, question)
	typed, err := term.ReadPassword(int(terminal.Fd()))
	_, _ = fmt.Fprintln(prompt)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	return string(typed), nil
}

// readPassword reads one line and returns it without its end. At a terminal it prompts, and does not echo.
func readPassword(in io.Reader, prompt io.Writer) (string, error) {
	var line string
	var err error
	if terminal, ok := in.(*os.File); ok && term.IsTerminal(int(terminal.Fd())) {
		_, _ = fmt.Fprint(prompt, "Password: ")
		var typed []byte
		typed, err = term.ReadPassword(int(terminal.Fd()))
		_, _ = fmt.Fprintln(prompt)
		line = string(typed)
	} else {
		// What is longer than any password is cut, and still too long to be one.
		line, err = bufio.NewReader(io.LimitReader(in, 2*passwords.MaxBytes)).ReadString('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if line == "" {
		return "", errors.New("the first line of standard input holds no password")
	}
	return line, nil
}
