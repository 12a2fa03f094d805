package oauth

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

func TestScopesKeepTheirOrderAndDropDuplicates(t *testing.T) {
	for text, want := range map[string]Scopes{
		"": nil, " ": nil, "    ": nil, "public": {"public"}, "trusted public": {"trusted", "public"}, " b  a b  a c ": {"b", "a", "c"},
		"a+b": {"a+b"}, "!#$%&'()*+,-./:;<=>?@[]^_`{|}~": {"!#$%&'()*+,-./:;<=>?@[]^_`{|}~"}, "Public public": {"Public", "public"},
	} {
		got, err := ParseScopes(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, bad := range []string{"a\tb", "a\nb", "a\u00a0b", `a"b`, `a\b`, "a\x00", "a\x7f", "é", "a\xff", "a\r\nb", strings.Repeat("a", maxScopeBytes+1)} {
		if got, err := ParseScopes(bad); err == nil {
			t.Errorf("%q: %q", bad, got)
		} else if AsError(err).Code != InvalidScope {
			t.Errorf("%q: got %v, want %s", bad, err, InvalidScope)
		}
	}
	var names []string
	for i := range maxScopes {
		names = append(names, "s"+strconv.Itoa(i))
	}
	if got, err := ParseScopes(strings.Join(names, " ")); err != nil || len(got) != maxScopes {
		t.Errorf("%d names: %v", maxScopes, err)
	}
	if got, err := ParseScopes(strings.Join(append(names, "s0", "s99"), " ")); err != nil || len(got) != maxScopes {
		t.Errorf("duplicates are counted: %v", err)
	}
	if _, err := ParseScopes(strings.Join(append(names, "one-more"), " ")); err == nil {
		t.Error("too many names were taken")
	}
	if _, err := ParseScopes(strings.Repeat("a", maxScopeBytes)); err != nil {
		t.Error(err)
	}
}

// TestGrantedScopesHoldNothingOfTheRequest: a scope that is a piece of a request's body keeps all of the body in memory, and
// 65,536 tokens are remembered.
func TestGrantedScopesHoldNothingOfTheRequest(t *testing.T) {
	catalogue := NewScopeCatalogue(Scope{Name: "ant", ServerTokens: true})
	for _, asked := range []string{"ant", "ant public", "public ant trusted"} {
		t.Run(asked, func(t *testing.T) {
			text := strings.Clone(asked)
			granted, err := catalogue.Grantable(text, Scopes{ScopePublic, "ant", ScopeTrusted}, AnyScope)
			if err != nil || granted.String() != asked {
				t.Fatalf("%q, %v", granted, err)
			}
			for _, name := range granted {
				if at := uintptr(unsafe.Pointer(unsafe.StringData(name))) - uintptr(unsafe.Pointer(unsafe.StringData(text))); at < uintptr(len(text)) {
					t.Errorf("%s is a piece of the request", name)
				}
			}
		})
	}
}

// TestAGrantOfEverythingChangesNoClient: such a grant has the client's own list.
func TestAGrantOfEverythingChangesNoClient(t *testing.T) {
	own := append(make(Scopes, 0, 4), ScopePublic)
	granted, err := NewScopeCatalogue().Grantable("public", own, AnyScope)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(granted, "more")
	if all := own[:2]; all[1] != "" {
		t.Errorf("the client's list has become %q", all)
	}
}

func TestScopeMissing(t *testing.T) {
	s := Scopes{"public", "trusted"}
	for _, v := range []struct {
		names []string
		want  string
	}{{nil, ""}, {[]string{"public"}, ""}, {[]string{"trusted", "public"}, ""}, {[]string{"public", "admin", "x"}, "admin"}, {[]string{"TRUSTED"}, "TRUSTED"}, {[]string{""}, ""}} {
		if got := s.Missing(v.names...); got != v.want {
			t.Errorf("%q: %q, want %q", v.names, got, v.want)
		}
	}
}

func TestScopeCatalogue(t *testing.T) {
	c := NewScopeCatalogue(Scope{Name: "zebra", Words: "See zebras"}, Scope{Name: "ant", ServerTokens: true}, Scope{Name: ScopePublic, Words: "Look around"})
	if got, want := c.Names(), []string{ScopePublic, ScopeTrusted, ScopeRefreshToken, ScopeOfflineAccess, ScopeGroups, "ant", "zebra"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	if s, ok := c.Find(ScopePublic); !ok || s.Words != "Look around" || !s.ServerTokens {
		t.Errorf("public is %+v", s)
	}
	for _, name := range []string{ScopeTrusted, ScopeGroups} {
		if s, ok := c.Find(name); !ok || s.ServerTokens {
			t.Errorf("%s is %+v", name, s)
		}
	}
	if _, ok := c.Find(ScopeOpenID); ok {
		t.Error("openid is known without being turned on")
	}
	provider := c.WithOpenID()
	if got, want := provider.Names(), []string{ScopePublic, ScopeTrusted, ScopeRefreshToken, ScopeOfflineAccess, ScopeGroups, ScopeOpenID, ScopeProfile, ScopeEmail, ScopePhone, ScopeAddress, "ant", "zebra"}; !slices.Equal(got, want) {
		t.Errorf("names of a provider %q, want %q", got, want)
	}
	if s, ok := provider.Find(ScopeEmail); !ok || s.ServerTokens {
		t.Errorf("email is %+v", s)
	}
	var zero ScopeCatalogue
	if _, ok := zero.Find("zebra"); ok || len(zero.Names()) != 5 {
		t.Error("the zero value knows more than the start")
	}
}

func FuzzScope(f *testing.F) {
	for _, seed := range []string{"", "public", "public trusted", "a  b a", "a\tb", `a"b`, `\`, "é", strings.Repeat("a ", 200), "a+b", " x", "\x00", "\x7f", "~ !"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		scopes, err := ParseScopes(text)
		if err != nil {
			if scopes != nil {
				t.Fatal("scopes come with the error")
			}
			return
		}
		seen := make(map[string]bool)
		for _, name := range scopes {
			if name == "" || seen[name] {
				t.Fatalf("%q: empty or twice: %q", text, name)
			}
			seen[name] = true
			for _, c := range []byte(name) {
				if c < 0x21 || c > 0x7e || c == 0x22 || c == 0x5c {
					t.Fatalf("%q holds %q", name, c)
				}
			}
		}
		if len(scopes) > maxScopes || len(text) > maxScopeBytes {
			t.Fatal("too many")
		}
		again, err := ParseScopes(scopes.String())
		if err != nil || !slices.Equal(again, scopes) {
			t.Fatalf("%q reads back as %q, %v", scopes, again, err)
		}
		var want []string
		for _, name := range strings.Fields(text) {
			if !slices.Contains(want, name) {
				want = append(want, name)
			}
		}
		if !slices.Equal(want, scopes) {
			t.Fatalf("%q gives %q, want %q", text, scopes, want)
		}
	})
}
