package guides

import (
	"strings"
	"testing"

	"github.com/markbates/goth"
	"github.com/markbates/goth/providers/openidConnect"
)

// TestGitea signs in by the library with which Gitea and Forgejo sign in, made with the arguments of the guide as Gitea makes it.
func TestGitea(t *testing.T) {
	g := startGatehouse(t)
	p := g.open("gitea")
	p.ran("goth", inGo(t, ".", "github.com/markbates/goth"))
	_, command, found := strings.Cut(p.text, "$ gitea admin auth add-oauth ")
	if !found {
		t.Fatal("the guide adds no source")
	}
	command, _, _ = strings.Cut(command, "\n```")
	words := strings.Fields(strings.ReplaceAll(command, "\\\n", " "))
	flags := map[string][]string{}
	for i := 0; i < len(words); i += 2 {
		flags[words[i]] = append(flags[words[i]], words[i+1])
	}
	provider, err := openidConnect.New(flags["--key"][0], flags["--secret"][0], "https://git.example.com/user/oauth2/"+flags["--name"][0]+"/callback",
		flags["--auto-discover-url"][0], flags["--scopes"]...)
	check(t, err)
	session, err := provider.BeginAuth("a-state-of-gitea")
	check(t, err)
	address, err := session.GetAuthURL()
	check(t, err)
	at := newBrowser(t).sentTo(address, to("https://git.example.com/user/oauth2/gatehouse/callback?"))
	if state := at.Query().Get("state"); state != "a-state-of-gitea" {
		t.Errorf("the state is %q", state)
	}
	_, err = session.Authorize(provider, at.Query())
	check(t, err)
	var user goth.User
	user, err = provider.FetchUser(session)
	check(t, err)
	if user.UserID != g.subject || user.Email != email || user.NickName != "ada" || user.Name != "Ada Lovelace" {
		t.Errorf("Gitea knows %+v", user)
	}
	if groups, _ := user.RawData[flags["--group-claim-name"][0]].([]any); len(groups) != 1 || groups[0] != "engineering" {
		t.Errorf("the groups are %v", user.RawData["groups"])
	}
}
