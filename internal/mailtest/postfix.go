package mailtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/loopback"
)

// Recipient is the one address for which a Postfix takes mail.
const Recipient = "nobody@mail.example"

// Postfix is a running Postfix that insists on STARTTLS, and delivers the mails for Recipient.
type Postfix struct {
	URL, CA string
	// Maildir is where the mails arrive.
	Maildir string

	dir string
}

// postfixMaster lists the daemons of Postfix that the test needs, with the address of the first.
const postfixMaster = `%s inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
proxymap unix - - n - - proxymap
postlog unix-dgram n - n - 1 postlogd
`

// StartPostfix starts a server with a directory of its own, on a port of 127.0.0.1. The end of the test stops it. It starts only as root,
// because it delivers as nobody. With -short, which `make quick` uses, the test is skipped.
func StartPostfix(t testing.TB) *Postfix {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("it starts Postfix, as root")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("postfix: %v", err)
		}
	}
	port, err := loopback.Reserve()
	must(err)
	t.Cleanup(func() { _ = port.Close() })
	dir, err := os.MkdirTemp("", "gatehouse-postfix-") // the path of t.TempDir is not for other users
	must(err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(os.Chmod(dir, 0o755)) //lint:ignore gosec for the daemons' users
	authority := NewAuthority(t)
	p := &Postfix{URL: "smtp://" + port.Addr(), CA: authority.CA, Maildir: filepath.Join(dir, "mail", "nobody"), dir: dir}
	for name, owner := range map[string]string{"etc": "root", "spool": "root", "data": "postfix", "mail": "nobody"} {
		path := filepath.Join(dir, name)
		must(os.Mkdir(path, 0o755)) //lint:ignore gosec for the daemons' users
		account, err := user.Lookup(owner)
		if err != nil {
			t.Fatalf("%v: install Debian's package postfix (make test does)", err)
		}
		id, err := strconv.Atoi(account.Uid)
		must(err)
		must(os.Chown(path, id, -1))
	}
	settings := strings.ReplaceAll(`compatibility_level = 3.6
queue_directory = DIR/spool
data_directory = DIR/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
meta_directory = /etc/postfix
shlib_directory = /usr/lib/postfix
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.example
mydestination =
virtual_mailbox_domains = mail.example
virtual_mailbox_base = DIR/mail
virtual_mailbox_maps = static:nobody/
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
maillog_file_prefixes = DIR
maillog_file = DIR/log
smtpd_tls_security_level = encrypt
smtpd_relay_restrictions = reject_unauth_destination
smtpd_recipient_restrictions =
alias_maps =
alias_database =
smtpd_tls_chain_files = `, "DIR", dir) + authority.KeyFile + ", " + authority.CertificateFile + "\n"
	must(os.WriteFile(filepath.Join(dir, "etc", "main.cf"), []byte(settings), 0o644))                               //lint:ignore gosec for the daemons' users
	must(os.WriteFile(filepath.Join(dir, "etc", "master.cf"), fmt.Appendf(nil, postfixMaster, port.Addr()), 0o644)) //lint:ignore gosec for the daemons' users
	command := exec.Command("/usr/sbin/postfix", "-c", filepath.Join(dir, "etc"), "start-fg")                       //lint:ignore gosec paths of this package
	if err := command.Start(); err != nil {
		t.Fatalf("%v: install Debian's package postfix (make test does)", err)
	}
	t.Cleanup(func() {
		// The master daemon is in a session of its own. It ends the others.
		master, err := os.ReadFile(filepath.Join(dir, "spool", "pid", "master.pid"))
		if pid, invalid := strconv.Atoi(strings.TrimSpace(string(master))); err == nil && invalid == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		_ = command.Wait() // the log says how it ended
	})
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // it tells nobody that it listens
		connection, err := net.Dial("tcp", port.Addr())
		if err == nil {
			_ = connection.Close()
			return p
		}
		if time.Now().After(until) {
			t.Fatalf("postfix does not listen: %v: %s", err, p.log())
		}
	}
}

// Next returns the mail that has been delivered. It waits for it.
func (p *Postfix) Next(t testing.TB) Mail {
	t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) { // it tells nobody of a delivery
		files, err := filepath.Glob(filepath.Join(p.Maildir, "new", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) > 0 {
			raw, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			return Mail{Raw: strings.ReplaceAll(string(raw), "\n", "\r\n")}
		}
	}
	t.Fatalf("no mail is delivered: %s", p.log())
	return Mail{}
}

func (p *Postfix) log() string {
	text, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
