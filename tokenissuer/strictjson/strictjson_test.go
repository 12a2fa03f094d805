package strictjson

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestTextsThatCanBeReadInTwoWays are refused, wherever in them it is.
func TestTextsThatCanBeReadInTwoWays(t *testing.T) {
	nested := func(depth int) string {
		return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}"
	}
	for name, text := range map[string]string{
		"empty": "", "null": "null", "a string": `"x"`, "an array": "[]", "cut off": `{"a":1`, "text behind it": `{"a":1}{}`, "a comma behind it": `{"a":1,}`,
		"a byte order mark": "\ufeff{}", "a member twice": `{"a":1,"a":1}`, "a member twice, escaped": `{"a":1,"\u0061":1}`, "a member twice within": `{"a":[{"b":1,"b":2}]}`,
		"not UTF-8": "{\"a\":\"\xff\"}", "a lone surrogate": `{"a":"\ud800"}`, "too deep": nested(MaxDepth + 1), "too deep behind a quote": `{"b":"\"","a":` + nested(MaxDepth) + "}",
		"too deep and not closed": strings.Repeat(`{"a":`, 100_000),
	} {
		var into struct {
			A any `json:"a"`
		}
		if err := Object([]byte(text), &into); err == nil {
			t.Errorf("%s: %v was read", name, into)
		}
		if members, err := Members([]byte(text)); err == nil {
			t.Errorf("%s: %v was read", name, members)
		}
	}
	if _, err := Members([]byte(nested(MaxDepth))); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
	if _, err := Members([]byte(`{"a":"` + strings.Repeat("[", 100) + `"}`)); err != nil {
		t.Errorf("brackets in a string: %v", err)
	}
}

// TestMembersAreExact: a number is the literal, which a float64 would round.
func TestMembersAreExact(t *testing.T) {
	got, err := Members([]byte(` {"n":9007199254740993,"e":1e400,"s":"1","l":[1.50,true,null],"o":{"n":-0}}`))
	want := map[string]any{"n": Number("9007199254740993"), "e": Number("1e400"), "s": "1", "l": []any{Number("1.50"), true, nil}, "o": map[string]any{"n": Number("-0")}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestNamesInAnotherCase are found as Unicode folds them.
func TestNamesInAnotherCase(t *testing.T) {
	for name, want := range map[string]bool{"sub": false, "SUB": true, "\u017fub": true, "subs": false, "EXP": true, "exp": false} {
		if got := FoldsTo(name, "sub", "exp"); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestFormsOfClaims that may have several on the wire.
func TestFormsOfClaims(t *testing.T) {
	type claims struct {
		Audience Texts        `json:"aud"`
		Expires  *NumericDate `json:"exp"`
	}
	at := func(seconds int64) *NumericDate { return &NumericDate{time.Unix(seconds, 0)} }
	for text, want := range map[string]claims{
		`{"aud":"a"}`: {Audience: Texts{"a"}}, `{"aud":["a","b"]}`: {Audience: Texts{"a", "b"}}, `{"aud":[]}`: {Audience: Texts{}}, `{"exp":12.9}`: {Expires: at(12)},
		`{"exp":253402300799}`: {Expires: at(253402300799)}, `{"exp":null}`: {}, `{"exp":1e2}`: {Expires: at(100)},
	} {
		var got claims
		if err := Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"aud":1}`, `{"aud":[1]}`, `{"aud":[null]}`, `{"aud":["a",null]}`, `{"aud":["a",["b"]]}`, `{"aud":{}}`, `{"exp":"1"}`, `{"exp":-1}`, `{"exp":253402300800}`, `{"exp":1e999}`, `{"exp":true}`} {
		var got claims
		if err := Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s: %v was read", text, got)
		}
	}
}
