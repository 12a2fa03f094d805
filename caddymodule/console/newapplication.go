package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// applicationKind is what a new application is. Its texts are `console.kind.NAME` and `console.kind.NAME.words`.
type applicationKind struct {
	name string
	kind store.ClientType
	// signsIn: people sign in to it, with OpenID Connect where the issuer is an OpenID provider.
	signsIn bool
	grants  []oauth.GrantType
	// members are those that it needs, beside name and id.
	members []string
}

var byCode = []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}

// applicationKinds are the kinds to choose from.
var applicationKinds = []applicationKind{
	{"web", store.ConfidentialClient, true, byCode, []string{"redirect_uris", "post_logout_redirect_uris", "backchannel_logout_uri", "first_party"}},
	{"page", store.PublicClient, true, byCode, []string{"redirect_uris", "post_logout_redirect_uris", "first_party"}},
	{"native", store.NativeClient, true, byCode, []string{"redirect_uris"}},
	{"service", store.ConfidentialClient, false, []oauth.GrantType{oauth.ClientCredentials}, []string{"scopes"}},
	{"mcp", store.NativeClient, false, byCode, []string{"redirect_uris", "scopes"}},
}

// openIDMembers need an issuer that is an OpenID provider.
var openIDMembers = []string{"post_logout_redirect_uris", "backchannel_logout_uri"}

// chooseKind lists the kinds of applications.
func chooseKind(*visit) (sheet, error) {
	s := sheet{title: "console.application.new"}
	for _, k := range applicationKinds {
		s.blocks = append(s.blocks, pages.Block{
			Title: pages.Say("console.kind." + k.name), Words: []pages.Phrase{pages.Say("console.kind." + k.name + ".words")},
			Links: []pages.ConsoleLink{{Phrase: pages.Say("console.kind.choose"), URL: to("/applications/add", "kind", k.name)}},
		})
	}
	return s, nil
}

// newApplication registers a client of a kind.
func newApplication(v *visit) (*form, error) {
	i := slices.IndexFunc(applicationKinds, func(k applicationKind) bool { return k.name == v.query("kind") })
	if i < 0 {
		return nil, errNoAction
	}
	k, openID := applicationKinds[i], v.operator.Target.Issuer.OpenID
	names := append([]string{"name"}, k.members...)
	if !openID {
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(openIDMembers, name) })
	}
	fields := v.memberFields(new(store.Client), names...)
	for i := range fields {
		fields[i].Required = fields[i].Name == "name"
	}
	fields = append(fields, pages.ConsoleField{Name: "id", Kind: "text", Label: pages.Say("console.member.id"), Help: pages.Say("console.application.id")},
		pages.ConsoleField{Name: "new_id", Kind: "hidden", Value: oauth.NewID()}) // the form sent again registers no second client
	f := &form{
		sheet:  sheet{title: "console.kind." + k.name, blocks: []pages.Block{{Words: []pages.Phrase{pages.Say("console.kind." + k.name + ".words")}}}},
		cancel: to("/applications/new"), fields: fields, submit: pages.Say("console.people.add"),
	}
	f.send = func(values url.Values) (result, error) {
		p, err := patchOf(new(store.Client), values, names...)
		if err != nil {
			return result{}, err
		}
		if slices.Contains(names, "redirect_uris") && !p.Has("redirect_uris") {
			return result{}, &fieldFault{"redirect_uris", pages.Say("console.application.redirect_missing")}
		}
		p["type"] = jsonText(string(k.kind))
		p["grants"], _ = json.Marshal(k.grants) // strings can be encoded
		judged := make(store.Patch, len(p))
		for name, value := range p {
			judged[name] = value
		}
		if id := cmp.Or(strings.TrimSpace(values.Get("id")), values.Get("new_id")); id != "" {
			p["id"] = jsonText(id)
		}
		if k.signsIn && openID {
			p["openid"] = []byte("true")
		}
		added, _, err := readAs[admin.Client](v.context(), &v.operator, admin.Ask{Route: admin.AddClient, Body: p})
		if err != nil {
			return result{}, faultOf(err, store.Client{}, judged, names)
		}
		shown, _, err := readAs[admin.Client](v.context(), &v.operator, admin.Ask{Route: admin.ShowClient, IDs: []string{added.ID}})
		if err != nil { // the secret is shown once
			shown = added
		}
		return result{sheet: addedApplication(&shown, &added, k)}, nil
	}
	return f, nil
}

// addedApplication shows a new client with its secret, and what is to be written into the application.
func addedApplication(c, added *admin.Client, k applicationKind) *sheet {
	s := &sheet{title: "console.application.added", about: titleOf(c)}
	if added.Warning != "" {
		s.notices = []pages.ConsoleNotice{{Phrase: pages.Phrase{Text: added.Warning}}}
	}
	if added.Secret != "" {
		s.blocks = append(s.blocks, pages.Block{
			Words:  []pages.Phrase{pages.Say("console.application.secret.words")},
			Copied: []pages.Copied{{Name: pages.Say("console.application.secret"), Text: added.Secret}},
		})
	}
	settings := settingsOf(c, k.name)
	settings.Links = []pages.ConsoleLink{{Phrase: pages.Say("console.application.back"), URL: to("/applications/application", "id", c.ID)}}
	s.blocks = append(s.blocks, settings)
	return s
}

// settingsOf returns what an application has to know, to be copied. An empty kind is found out.
func settingsOf(c *admin.Client, kind string) pages.Block {
	b := pages.Block{Title: pages.Say("console.application.settings"), Words: []pages.Phrase{pages.Say("console.application.settings.words")}}
	p := c.Provider
	if p == nil {
		return b
	}
	b.Facts = append(b.Facts, pages.Fact{Name: pages.Say("console.application.client_id"), Cells: cells(code(c.ID))})
	for _, setting := range []struct{ key, value string }{
		{"console.application.issuer", p.Issuer}, {"console.application.discovery", p.Discovery}, {"console.application.authorization", p.Authorization},
		{"console.application.token", p.Token}, {"console.application.userinfo", p.UserInfo}, {"console.application.end_session", p.EndSession},
		{"console.application.jwks", p.JWKS},
	} {
		if setting.value != "" {
			b.Facts = append(b.Facts, pages.Fact{Name: pages.Say(setting.key), Cells: cells(code(setting.value))})
		}
	}
	copied := func(key, text string) { b.Copied = append(b.Copied, pages.Copied{Name: pages.Say(key), Text: text}) }
	variables := "ISSUER=" + shellWord(p.Issuer) + "\nCLIENT_ID=" + shellWord(c.ID) + "\n"
	if !c.IsPublic() && !c.SignsAssertions() {
		variables += "CLIENT_SECRET=\n"
	}
	byService := c.MayUse(oauth.ClientCredentials) && !c.IsPublic() && !c.SignsAssertions()
	switch {
	case kind == "page" || kind == "" && c.Type == store.PublicClient && len(c.RedirectURIs) > 0:
		copied("console.application.script", scriptOf(c))
		if u, err := url.Parse(c.RedirectURIs[0]); err == nil {
			copied("console.application.caddyfile", "handle /api/* {\n\tprotect {\n\t\tcors "+oauth.OriginOf(u)+"\n\t}\n\treverse_proxy 127.0.0.1:9000\n}\n")
		}
	case kind == "mcp":
		copied("console.application.caddyfile", "mcp.example.com {\n\tprotect "+c.Scopes.String()+" {\n\t\tmcp\n\t}\n\treverse_proxy 127.0.0.1:3000\n}\n")
	default:
		copied("console.application.variables", variables)
	}
	if byService {
		copied("console.application.curl", `curl -s -u `+shellWord(url.QueryEscape(c.ID))+`:"$CLIENT_SECRET" -d grant_type=client_credentials `+shellWord(p.Token))
	} else {
		copied("console.application.curl", `curl -s `+shellWord(p.Discovery))
	}
	return b
}

// scriptOf returns the settings of oidc-client-ts, as in the guide for single-page applications.
func scriptOf(c *admin.Client) string {
	settings := []string{"authority: " + scriptText(c.Provider.Issuer), "client_id: " + scriptText(c.ID), "redirect_uri: " + scriptText(c.RedirectURIs[0])}
	if len(c.PostLogoutRedirectURIs) > 0 {
		settings = append(settings, "post_logout_redirect_uri: "+scriptText(c.PostLogoutRedirectURIs[0]))
	}
	settings = append(settings, "scope: "+scriptText(c.Scopes.String()), "loadUserInfo: true")
	return "new UserManager({\n  " + strings.Join(settings, ",\n  ") + ",\n})\n"
}

// scriptText returns a text as a literal of JavaScript.
func scriptText(text string) string {
	literal, _ := json.Marshal(text)
	return string(literal)
}

// shellWord returns a text as a word of a shell, quoted if it needs to be.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/%@+"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
