package store

import (
	"strings"
	"testing"
)

// TestT71CanonicalEmailIsItsOwn: canonicalizing an accepted address again does not change it. Otherwise one address would have two
// buckets.
func TestT71CanonicalEmailIsItsOwn(t *testing.T) {
	for address, want := range map[string]string{
		"ada@acme.example": "ada@acme.example", " ADA@ACME.EXAMPLE.\t": "ada@acme.example", "e\u0301@x.example": "é@x.example", "\u212a@x.example": "k@x.example", "a+b@x.example": "a+b@x.example",
		"a@x.example\u2024": "a@x.example", "a@x.example\u00a0": "a@x.example", "\u3000a@x.example": "a@x.example", "a\uff20x.example": "a@x.example", "\u0131@x.example": "\u0131@x.example",
	} {
		got, err := CanonicalEmail(address)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v", address, got, err)
		}
	}
	for _, address := range []string{"", "a", "@x", "a@", "a@.", "a@b@x", "a b@x", "a\x00@x", "a\n@x", "a\xff@x", "a\uff20b@x", "a@x\u2028y", strings.Repeat("a", 250) + "@x.example"} {
		if got, err := CanonicalEmail(address); err == nil {
			t.Errorf("%q: %q", address, got)
		}
	}
	for r := rune(0); r < 0x20000; r++ {
		switch r { // one character stands for many that Unicode treats alike
		case 0x3401, 0x4e01: // ideographs
			r = map[rune]rune{0x3401: 0x4dbf, 0x4e01: 0x9fff}[r]
		case 0xe001: // private use
			r = 0xf8ff
		case 0x10000:
			r = 0x1d400 // mathematical letters and other compatibility characters
		}
		for _, address := range []string{"a" + string(r) + "b@x.example", string(r) + "a@x.example", "a@x.example" + string(r), "a" + string(r) + "\u0301@x.example"} {
			if got, err := CanonicalEmail(address); err == nil {
				if again, err := CanonicalEmail(got); err != nil || again != got {
					t.Fatalf("%U: %q becomes %q becomes %q, %v", r, address, got, again, err)
				}
			}
		}
	}
}

// TestAnAddressOfAProviderThatIsUnlinked checks that an address that a provider has verified is no longer verified once the identities are
// unlinked, and that one that an operator has verified still is.
func TestAnAddressOfAProviderThatIsUnlinked(t *testing.T) {
	for by, want := range map[string]string{"corp": "", VerifiedByOperator: VerifiedByOperator, "": "", Unvouched: Unvouched} {
		u := User{ID: "ada", EmailVerifiedBy: by}
		if _, err := (UserChange{UnlinkIdentities: true}).Apply(&u); err != nil || u.EmailVerifiedBy != want {
			t.Errorf("verified by %q: by %q after it, %v", by, u.EmailVerifiedBy, err)
		}
	}
}
