package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/moving"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// importCommand brings over what another server has.
func importCommand(api *apiClient) *cobra.Command {
	table := userImport(api)
	table.Use = strings.Replace(table.Use, "import", "csv", 1)
	return group("import", "Brings over the applications, people and tokens of another server",
		importDoorkeeper(api), table,
		importLines(api, "htpasswd FILE|- [--domain example.com] [--dry-run] [--update]", "Adds the people of a file of htpasswd, with their bcrypt hashes", htpasswdUser),
		importLines(api, "emails FILE|- [--dry-run]", "Adds a person for each address of a list, as oauth2-proxy has it (authenticated_emails_file)", emailUser))
}

// importLines builds a command that adds the user of each line of a file. Empty lines and comments are skipped.
func importLines(api *apiClient, use, short string, userOf func(line, domain string) (admin.UserToImport, error)) *cobra.Command {
	m := newImporter(api)
	var domain string
	cmd := command(use, short, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		return m.run(cmd, args[0], func(in io.Reader) error {
			lines := rows{in: bufio.NewReaderSize(in, maxRow)}
			for {
				line, err := lines.line()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff")); err == nil && (line == "" || line[0] == '#') {
					continue
				}
				var u admin.UserToImport
				if err == nil {
					u, err = userOf(line, domain)
				}
				if err != nil && !errors.As(err, new(errRow)) {
					return err
				}
				if err := m.add(lines.number, u, err); err != nil {
					return m.stopped(fmt.Sprint("line ", lines.number), err)
				}
			}
		})
	})
	cmd.ValidArgsFunction = nil // a file
	m.flags(cmd)
	if strings.HasPrefix(use, "htpasswd") {
		cmd.Flags().StringVar(&domain, "domain", "", "Domain of the addresses of names that are none")
	}
	return cmd
}

func htpasswdUser(line, domain string) (u admin.UserToImport, err error) {
	name, hash, found := strings.Cut(line, ":")
	switch {
	case !found || name == "" || hash == "":
		return u, errRow{errors.New("it is not NAME:HASH")}
	case strings.Contains(name, "@"):
		u.Email = name
	case domain == "":
		return u, errRow{fmt.Errorf("%.64q is no e-mail address: give its domain with --domain", name)}
	default:
		u.Email, u.Username, u.Name = name+"@"+domain, name, name
	}
	if !strings.HasPrefix(hash, "$2") {
		return u, errRow{errors.New("only hashes of bcrypt can be brought over (htpasswd -B)")}
	}
	u.Hash = hash
	return u, nil
}

func emailUser(line, _ string) (admin.UserToImport, error) {
	return admin.UserToImport{Email: line}, nil
}

// doorkeeperImport reads the tables of Doorkeeper and sends their rows in batches.
type doorkeeperImport struct {
	api    *apiClient
	out    io.Writer
	asJSON bool
	admin.ImportRun
	doorkeeperFlags
	doorkeeper moving.Doorkeeper
	// refusedUsers have the ids of users who were not brought over. Their tokens are not either.
	refusedUsers map[string]bool
	counts       map[string]map[string]int // by kind and outcome
	now          func() time.Time
	called       time.Time // when the last call began
}

// call calls the API. It fails if the last call began longer ago than its lease lasts: another import may have begun since, which has read newer
// rows.
func (m *doorkeeperImport) call(r admin.Request, in, out any) error {
	now := m.now()
	if !m.called.IsZero() && now.Sub(m.called) > admin.ImportLease {
		return fmt.Errorf("the import stood still for more than %s, and another one may have begun", admin.ImportLease)
	}
	m.called = now
	return m.api.call(r, in, out)
}

// doorkeeperFlags are the flags as given.
type doorkeeperFlags struct {
	from, devise, tokens, secrets, owner string
	mapped, scopes                       []string
}

// listedRow is what is printed about a row.
type listedRow struct {
	Kind   string `json:"kind"`
	Row    string `json:"row"`
	Name   string `json:"name,omitzero"`
	Result string `json:"result"`
	Reason string `json:"reason,omitzero"`
}

func importDoorkeeper(api *apiClient) *cobra.Command {
	m := doorkeeperImport{api: api, now: time.Now}
	cmd := command("doorkeeper --from postgres://…|mysql://…|dump.jsonl [--devise users] [--dry-run]", "Brings over the applications, people and tokens of Doorkeeper and Devise", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error { return m.run(cmd) })
	cmd.Long = `Brings over the applications of Doorkeeper, the people of Devise, and the
tokens that are valid. It only reads there, and may run while the old server
runs. Run again, it brings what has changed since: new rows, changed people and
applications, and tokens that were revoked.

What is not brought over is printed with the reason, a line for each row. See
https://github.com/gatehouse-auth/gatehouse/blob/main/docs/migration-doorkeeper.md`
	flags := cmd.Flags()
	flags.StringVar(&m.from, "from", "", "Where the tables are: postgres://…, mysql://…, or a file with a row a line")
	flags.StringVar(&m.devise, "devise", "", "Table of the people (default: none are brought over)")
	flags.StringArrayVar(&m.mapped, "map", nil, "Column of a member of people, as groups=teams; repeat it for more")
	flags.StringVar(&m.tokens, "tokens", "", "How tokens are kept: plain or sha256 (hash_token_secrets)")
	flags.StringVar(&m.secrets, "secrets", "", "How secrets are kept: plain or sha256 (hash_application_secrets); bcrypt is recognised")
	flags.StringVar(&m.owner, "owner-type", "User", "Class of the people, where resource_owner_type names one")
	flags.StringArrayVar(&m.scopes, "scope", nil, "Scope of applications that name none; repeat it for more (default: public)")
	flags.StringVar(&m.Source, "source", "", "Name of the source (default: made from the database and its host; a file needs one)")
	flags.BoolVar(&m.DryRun, "dry-run", false, "Store nothing, and say what would be done")
	flags.BoolVar(&m.asJSON, "json", false, "Print JSON, a line for each row")
	_ = cmd.MarkFlagRequired("from")
	return cmd
}

func (m *doorkeeperImport) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	m.out, m.counts, m.refusedUsers = cmd.OutOrStdout(), make(map[string]map[string]int), make(map[string]bool)
	m.doorkeeper = moving.Doorkeeper{OwnerType: m.owner, DefaultScopes: m.scopes, Now: m.now()}
	var err error
	if m.doorkeeper.Tokens, err = moving.ParseForm(m.tokens); err != nil {
		return err
	}
	if m.doorkeeper.Secrets, err = moving.ParseForm(m.secrets); err != nil {
		return err
	}
	devise, err := moving.NewDevise(m.devise, m.mapped)
	if err != nil {
		return err
	}
	source, err := moving.Open(ctx, m.from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	if m.Source = cmp.Or(m.Source, source.Name()); m.Source == "" {
		return errors.New("a file does not say which service it is of: give the service a name with --source, and the same one each time")
	}
	m.Run = oauth.NewID()
	if !m.DryRun {
		defer func() { _ = m.api.call(admin.EndImport.For(), m.ImportRun, nil) }() // it ends by itself if that fails
	}
	steps := []func() error{
		func() error { return m.applications(ctx, source) },
		func() error { return m.people(ctx, source, devise) },
		func() error { return m.accessTokens(ctx, source) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			if m.DryRun {
				return fmt.Errorf("%w; nothing was stored", err)
			}
			return fmt.Errorf("%w; what was brought over stays, and the same command goes on", err)
		}
	}
	return m.summary(cmd.ErrOrStderr())
}

// kinds are the kinds of rows, in the order in which they are imported.
var kinds = []string{"applications", "people", "tokens"}

// summary says how many rows had which outcome.
func (m *doorkeeperImport) summary(out io.Writer) error {
	refused := 0
	for _, kind := range kinds {
		var parts []string
		for _, outcome := range []string{"added", "updated", "unchanged", "ended", "refused", string(moving.Revoked), string(moving.Expired)} {
			if n := m.counts[kind][outcome]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
			}
		}
		refused += m.counts[kind]["refused"]
		words := map[bool]string{true: "nothing was stored; it would be: "}[m.DryRun] + cmp.Or(strings.Join(parts, ", "), "none")
		if _, err := fmt.Fprintf(out, "%s: %s\n", kind, words); err != nil {
			return err
		}
	}
	if refused > 0 {
		return fmt.Errorf("%d rows were not brought over", refused)
	}
	return nil
}

// note counts an outcome, and prints it if there is something to know.
func (m *doorkeeperImport) note(row listedRow) error {
	if m.counts[row.Kind] == nil {
		m.counts[row.Kind] = make(map[string]int)
	}
	if m.counts[row.Kind][row.Result]++; row.Reason == "" {
		return nil
	}
	row.Row, row.Name = strings.TrimLeft(row.Row, "0"), strings.ToValidUTF8(row.Name, "\ufffd")
	var err error
	if m.asJSON {
		text, _ := json.Marshal(row) // texts are UTF-8, or an error of the API would have said so
		_, err = fmt.Fprintf(m.out, "%s\n", text)
	} else {
		_, err = fmt.Fprintf(m.out, "%s %s%s: %s: %s\n", row.Kind, row.Row, map[bool]string{true: fmt.Sprintf(" (%q)", row.Name)}[row.Name != ""], row.Result, row.Reason)
	}
	return err
}

// refuse notes a row that cannot even be sent. An error about the import as a whole ends it.
func (m *doorkeeperImport) refuse(row listedRow, err error) error {
	if moving.IsFatal(err) {
		return err
	}
	row.Result, row.Reason = "refused", err.Error()
	return m.note(row)
}

func (m *doorkeeperImport) applications(ctx context.Context, source moving.Source) error {
	return moving.EachPage(ctx, source, moving.Applications, func(page []moving.Row, _ bool) error {
		request := admin.ClientsToImport{ImportRun: m.ImportRun}
		var sent []moving.Row
		for _, row := range page {
			client, err := m.doorkeeper.Application(row)
			if err == nil {
				err = sendable(client, batchBytes)
			}
			if err != nil {
				m.doorkeeper.Note(row, err.Error())
				if err := m.refuse(listedRow{Kind: "applications", Row: row.Key(), Name: client.Name}, err); err != nil {
					return err
				}
				continue
			}
			request.Clients, sent = append(request.Clients, client), append(sent, row)
		}
		return sendBatches(batchBytes, request.Clients, func(some []admin.ClientToImport) error {
			request.Clients = some
			var answers []admin.Imported
			if err := m.call(admin.ImportClients.For(), request, &answers); err != nil {
				return err
			}
			for _, answer := range answers {
				refused := ""
				if answer.Result == admin.Refused {
					refused = answer.Reason
				}
				m.doorkeeper.Note(sent[0], refused)
				err := m.note(listedRow{"applications", sent[0].Key(), answer.User, string(answer.Result), answer.Reason})
				if sent = sent[1:]; err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (m *doorkeeperImport) people(ctx context.Context, source moving.Source, devise moving.Devise) error {
	if devise.Table == "" {
		return nil
	}
	return moving.EachPage(ctx, source, devise.Table, func(page []moving.Row, _ bool) error {
		request := admin.UsersToImport{ImportRun: m.ImportRun}
		for _, row := range page {
			user, err := devise.User(row)
			if err == nil {
				err = sendable(user, batchBytes)
			}
			if err != nil {
				m.refusedUsers[row.Text("id")] = true
				if err := m.refuse(listedRow{Kind: "people", Row: row.Key(), Name: user.Email}, err); err != nil {
					return err
				}
				continue
			}
			request.Users = append(request.Users, user)
		}
		return sendBatches(batchBytes, request.Users, func(some []admin.UserToImport) error {
			request.Users = some
			var answers []admin.Imported
			if err := m.call(admin.ImportUsers.For(), request, &answers); err != nil {
				return err
			}
			for _, answer := range answers {
				if answer.Result == admin.Refused {
					m.refusedUsers[answer.ID] = true
				}
				if err := m.note(listedRow{"people", answer.ID, answer.User, string(answer.Result), answer.Reason}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// tokenRow is a token that is valid in the source: one to import, or the record of one that cannot be imported now.
type tokenRow struct {
	Token *admin.TokenToImport `json:"token,omitzero"`
	Kept  string               `json:"kept,omitzero"`
}

func (r tokenRow) record() string {
	if r.Token != nil {
		return r.Token.Record
	}
	return r.Kept
}

// accessTokens imports the table of tokens stretch by stretch. Whatever lies in a stretch and is not valid any more ends. While the API stores
// a stretch, the next rows are read.
func (m *doorkeeperImport) accessTokens(ctx context.Context, source moving.Source) error {
	done := "" // the last record of the stretch before; empty: it begins with the first record there is
	stored := func() error { return nil }
	send := func(upto string, last bool, rows []tokenRow) error {
		if err := stored(); err != nil {
			return err
		}
		stored = m.sendTokens(done, upto, last, rows)
		done = upto
		return nil
	}
	err := moving.EachPage(ctx, source, moving.AccessTokens, func(page []moving.Row, last bool) error {
		if len(page) == 0 && done == "" && !source.IsWhole() {
			return nil // nothing is known about any token
		}
		end := done
		if len(page) > 0 {
			end = page[len(page)-1].Key()
		}
		if done == "" && !source.IsWhole() {
			done = moving.Before(page[0].Key())
		}
		rows, err := m.tokensOf(page)
		if err != nil {
			return err
		}
		last = last && source.IsWhole()
		if len(rows) == 0 {
			return send(end, last, nil)
		}
		sent := 0
		return sendBatches(tokenBytes, rows, func(some []tokenRow) error {
			sent += len(some)
			upto := some[len(some)-1].record()
			if sent == len(rows) {
				upto = end
			}
			return send(upto, last && sent == len(rows), some)
		})
	})
	return cmp.Or(stored(), err)
}

// tokenBytes is how much of a request with tokens these may take: 1 MiB, without the members around them.
const tokenBytes = 1<<20 - 16<<10

// tokensOf returns the tokens of a page that are valid.
func (m *doorkeeperImport) tokensOf(page []moving.Row) (rows []tokenRow, err error) {
	for _, row := range page {
		token, err := m.doorkeeper.Token(row)
		if err == nil {
			err = sendable(token, batchBytes)
		}
		if err == nil && m.refusedUsers[token.User] {
			err = errors.New("its user was not brought over")
		}
		var skipped moving.Skipped
		switch {
		case errors.As(err, &skipped):
			err = m.note(listedRow{Kind: "tokens", Result: string(skipped)})
		case err != nil:
			rows = append(rows, tokenRow{Kept: token.Record})
			err = m.refuse(listedRow{Kind: "tokens", Row: token.Record}, err)
		default:
			rows = append(rows, tokenRow{Token: &token})
		}
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// sendTokens begins to import the tokens of a stretch, from the record after done up to another one or, if it is the last stretch, of all that
// follow. The function that it returns waits for the end, and notes what became of them.
func (m *doorkeeperImport) sendTokens(done, upto string, last bool, rows []tokenRow) (wait func() error) {
	var answers []admin.ImportedTokens
	ended := make(chan error, 1)
	go func() {
		for {
			request := admin.TokensToImport{ImportRun: m.ImportRun, After: done, Upto: upto}
			if last {
				request.Upto = ""
			}
			for _, row := range rows {
				switch {
				case row.Token == nil:
					request.Kept = append(request.Kept, row.Kept)
				case row.record() > done:
					request.Tokens = append(request.Tokens, *row.Token)
				}
			}
			var answer admin.ImportedTokens
			if err := m.call(admin.ImportTokens.For(), request, &answer); err != nil {
				ended <- err
				return
			}
			if answers = append(answers, answer); answer.DoneUpto == "" {
				ended <- nil
				return
			}
			done = answer.DoneUpto
		}
	}()
	return sync.OnceValue(func() error {
		err := <-ended
		for _, answer := range answers {
			if noted := m.noteTokens(answer); noted != nil {
				return noted
			}
		}
		return err
	})
}

// noteTokens counts what became of tokens.
func (m *doorkeeperImport) noteTokens(answer admin.ImportedTokens) error {
	for _, refused := range answer.Refused {
		if err := m.note(listedRow{"tokens", refused.ID, "", string(refused.Result), refused.Reason}); err != nil {
			return err
		}
	}
	if m.counts["tokens"] == nil {
		m.counts["tokens"] = make(map[string]int)
	}
	m.counts["tokens"]["added"] += answer.Added
	m.counts["tokens"]["unchanged"] += answer.Unchanged
	m.counts["tokens"]["ended"] += answer.Ended
	return nil
}

// sendable refuses what no request can have.
func sendable(thing any, most int) error {
	text, err := json.Marshal(thing)
	switch {
	case err != nil:
		return errors.New("a text in it is not UTF-8")
	case len(text) > most:
		return fmt.Errorf("it is larger than %d KiB", most>>10)
	}
	return nil
}

// sendBatches calls send with parts of a list that have at most that many bytes each.
func sendBatches[T any](most int, list []T, send func([]T) error) error {
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) {
			text, err := json.Marshal(list[n])
			if err != nil {
				return err
			}
			if size += len(text) + 1; n > 0 && size > most {
				break
			}
			n++
		}
		if err := send(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}
