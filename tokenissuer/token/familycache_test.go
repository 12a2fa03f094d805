package token

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// fillFields gives every field of a structure a distinct value, nested fields included, and returns all texts.
func fillFields(t *testing.T, v reflect.Value, n *int64) (texts []*string) {
	t.Helper()
	for i := range v.NumField() {
		f := v.Field(i)
		*n++
		switch value := f.Addr().Interface().(type) {
		case *oauth.Secret:
			*value = oauth.NewSecret("a secret")
			continue
		case *time.Time:
			*value = tokentest.Start.Add(time.Duration(*n) * time.Hour).UTC()
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprint("text ", *n))
			texts = append(texts, (*string)(f.Addr().UnsafePointer()))
		case reflect.Slice:
			list := []string{fmt.Sprint("one ", *n), fmt.Sprint("two ", *n)}
			f.Set(reflect.ValueOf(list).Convert(f.Type()))
			texts = append(texts, &list[0], &list[1])
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(*n)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
			texts = append(texts, fillFields(t, f.Elem(), n)...)
		case reflect.Struct:
			texts = append(texts, fillFields(t, f, n)...)
		default:
			t.Fatalf("a field of a kind that is new here: %v", f.Type())
		}
	}
	return texts
}

// TestARememberedFamilyIsAsItWas checks that a cached family is unchanged and keeps no text of the request it came
// with, for every present and future field of a family or a user.
func TestARememberedFamilyIsAsItWas(t *testing.T) {
	var family store.TokenFamily
	var user store.User
	var n int64
	texts := append(fillFields(t, reflect.ValueOf(&family).Elem(), &n), fillFields(t, reflect.ValueOf(&user).Elem(), &n)...)
	r := newRememberedFamily(&family, &user)
	want := user
	want.PasswordHash, want.Profile = oauth.Secret{}, nil
	if !reflect.DeepEqual(r.family, family) || !reflect.DeepEqual(r.user, want) {
		t.Errorf("got  %+v\n%+v\nwant %+v\n%+v", r.family, r.user, family, want)
	}
	before := fmt.Sprintf("%+v", *r)
	for _, text := range texts {
		for i := range unsafe.Slice(unsafe.StringData(*text), len(*text)) {
			*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(*text)), i)) = '-'
		}
	}
	if after := fmt.Sprintf("%+v", *r); after != before {
		t.Errorf("the request is over, and what is remembered became %s", after)
	}
	if r := newRememberedFamily(new(store.TokenFamily), new(store.User)); !reflect.DeepEqual(*r, rememberedFamily{weight: leastFamilyWeight}) {
		t.Errorf("nothing is remembered as %+v", r)
	}
}

// TestARememberedFamilyIsAsStored: times have the precision of a store, so a family from the cache equals one from
// the store.
func TestARememberedFamilyIsAsStored(t *testing.T) {
	at := time.Now()
	r := newRememberedFamily(&store.TokenFamily{Validity: store.Validity{CreatedAt: at}}, new(store.User))
	if got := r.family.CreatedAt; got != at.UTC().Truncate(time.Microsecond) {
		t.Errorf("%v is remembered as %v", at, got)
	}
}

// TestAFamilyMemoryStaysWithinItsBounds checks the bound on the number, and on the bytes where families are heavy.
func TestAFamilyMemoryStaysWithinItsBounds(t *testing.T) {
	usual := store.TokenFamily{User: store.FamilyUser{ID: strings.Repeat("u", 22)}, Refresh: store.RefreshState{RotatedBy: strings.Repeat("r", 43)}, Grant: store.Grant{Scopes: oauth.Scopes{"public", "trusted"}}}
	usual.Preconditions.SessionID = strings.Repeat("s", 22)
	usual.Code = store.CodeBinding{RequestID: strings.Repeat("q", 22), RedirectURI: "https://app.example/callback", Challenge: strings.Repeat("c", 43)}
	for _, test := range []struct {
		name string
		note int
		most int
	}{
		{"usual", 10, maxRememberedFamilies},
		{"heavy", 8000, maxFamilyBytes / 8000},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := NewFamilyCache()
			for i := range 2 * maxRememberedFamilies {
				f := usual
				f.ID, f.Note = fmt.Sprintf("family-%022d", i), string(make([]byte, test.note))
				m.Put(&f, &store.User{ID: usual.User.ID, Email: "ada@example.com", Name: "Ada Lovelace", Organisation: "acme", Groups: []string{"staff"}})
			}
			least := test.most * 2 / 5 // the young generation may have just begun
			if n := m.families.Len(); n > test.most || n < least {
				t.Errorf("%d families are remembered, want %d to %d", n, least, test.most)
			}
		})
	}
}
