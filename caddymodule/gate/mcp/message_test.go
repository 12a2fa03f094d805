package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// read reads the messages of a text.
func read(text string) (messages []message, err error) {
	err = readMessages([]byte(text), func(m message) error {
		messages = append(messages, m)
		return nil
	})
	return messages, err
}

// TestQ20MessagesThatCanBeReadInTwoWays: a JSON-RPC body with a member twice, text behind it, depth over 64, over 100 messages, bad UTF-8
// → 400.
func TestQ20MessagesThatCanBeReadInTwoWays(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "white space": " \n", "a string": `"x"`, "a number": "1", "null": "null", "an empty batch": "[]", "a batch in a batch": `[[{"method":"x"}]]`,
		"a batch of numbers": "[1]", "cut off": `{"method":"tools/call"`, "something behind it": `{"method":"x"}{"method":"y"}`, "a comma behind it": `{"method":"x",}`,
		"a byte order mark": "\ufeff" + `{"method":"x"}`, "a comment": `{"method":"x"/**/}`, "single quotes": `{'method':'x'}`, "no quotes": `{method:"x"}`,
		"method twice": `{"method":"ping","method":"tools/call"}`, "method twice, once with an escape": `{"method":"ping","m\u0065thod":"tools/call"}`,
		"params twice":                    `{"method":"tools/call","params":{"name":"a"},"params":{"name":"b"}}`,
		"a member of the arguments twice": `{"method":"tools/call","params":{"name":"a","arguments":{"x":[{"b":1,"\u0062":2}]}}}`,
		"name twice":                      `{"method":"tools/call","params":{"name":"a","name":"b"}}`,
		"name twice, once with an escape": `{"method":"tools/call","params":{"name":"a","\u006eame":"b"}}`,
		"id twice":                        `{"id":1,"id":2,"method":"x"}`,
		"Method":                          `{"Method":"tools/call","params":{"name":"a"}}`,
		"both cases":                      `{"method":"ping","METHOD":"tools/call","params":{"name":"a"}}`,
		"Params":                          `{"method":"tools/call","Params":{"name":"a"}}`,
		"Name":                            `{"method":"tools/call","params":{"name":"a","Name":"b"}}`,
		"a long s":                        `{"method":"tools/call","params":{"name":"a"},"param` + "\u017f" + `":{"name":"b"}}`,
		"the method in another case":      `{"method":"Tools/Call","params":{"name":"a"}}`,
		"no params":                       `{"method":"tools/call"}`, "params in order": `{"method":"tools/call","params":["a"]}`, "no name": `{"method":"tools/call","params":{}}`,
		"an empty name": `{"method":"tools/call","params":{"name":""}}`, "a name that is no string": `{"method":"tools/call","params":{"name":["a"]}}`,
		"a method that is no string": `{"method":1}`, "null as method": `{"method":null}`,
		"a control character": "{\"method\":\"a\nb\"}", "not UTF-8": "{\"method\":\"\xff\"}", "an overlong form": "{\"method\":\"\xc0\xaf\"}", "a surrogate in UTF-8": "{\"method\":\"\xed\xa0\x80\"}",
		"a lone high surrogate": `{"method":"\ud800"}`, "a lone low surrogate": `{"method":"\udc00"}`, "two high ones": `{"method":"\ud800\ud800"}`, "an escape of nothing": `{"method":"\x"}`,
		"half an escape": `{"method":"\u00`, "a leading zero": `{"method":"x","id":01}`, "a plus": `{"method":"x","id":+1}`, "a dot": `{"method":"x","id":1.}`, "an exponent of nothing": `{"method":"x","id":1e}`,
		"not a number": `{"method":"x","id":NaN}`, "deep": `{"method":"x","params":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "}",
		"deep objects": `{"method":"x","params":` + strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70) + "}", "deep beyond measure": strings.Repeat("[", 200_000),
		"NUL in the method": `{"method":"tools/call\u0000","params":{"name":"a"}}`, "NUL in the name": `{"method":"tools/call","params":{"name":"a\u0000b"}}`,
		"DEL in the name": "{\"method\":\"tools/call\",\"params\":{\"name\":\"a\x7f\"}}", "a control character beyond ASCII": "{\"method\":\"tools/call\",\"params\":{\"name\":\"a\u0085\"}}",
		"a line feed in the name": `{"method":"tools/call","params":{"name":"a\n"}}`, "a line feed in the URI": `{"method":"resources/read","params":{"uri":"file:///a\n"}}`,
		"NUL in a member": `{"method\u0000":"tools/call","method":"ping"}`, "NUL in a member of params": `{"method":"tools/call","params":{"name\u0000":"b","name":"a"}}`,
		"NUL in a member of the arguments": `{"method":"tools/call","params":{"name":"a","arguments":{"x":[{"b\u0000":1}]}}}`,
		"__proto__":                        `{"method":"ping","__proto__":{"method":"tools/call"}}`, "__proto__ in params": `{"method":"tools/call","params":{"__proto__":{"name":"b"},"name":"a"}}`,
		"__proto__, escaped, in the arguments": `{"method":"tools/call","params":{"name":"a","arguments":{"x":1,"\u005f_proto__":{}}}}`,
		"101 in a batch":                       "[" + strings.Repeat(`{"method":"x"},`, 100) + `{"method":"x"}]`,
		"bad in a batch":                       `[{"method":"ping"},{"method":"tools/call"}]`, "UTF-16": "\xff\xfe{\x00}\x00", "zero bytes": "\x00\x00{}",
	} {
		if messages, err := read(text); err == nil {
			t.Errorf("%s: %d messages were read", name, len(messages))
		}
	}
}

// TestQ20MessagesAreReadAsTheyAre covers everything that JSON allows.
func TestQ20MessagesAreReadAsTheyAre(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_weather","arguments":{"name":"other","method":"x"}}}`:     "tools/call get_weather 7",
		" {\t\"params\" : { \"arguments\" : [1, -2.5e+3, true, false, null], \"name\" : \"a\" } ,\r\n\"method\" : \"tools/call\" } \n": "tools/call a ",
		`{"m\u0065thod":"tools\/call","p\u0061rams":{"n\u0061me":"\u0061\ud83d\ude00"}}`:                                               "tools/call a\U0001F600 ",
		`{"id":"x\"y","method":"tools/list","params":{"Name":1}}`:                                                                      "error",
		`{"id":null,"method":"resources/read","params":{"uri":"file:///x"}}`:                                                           "resources/read  ",
		`{"id":1,"result":{"method":"tools/call"}}`:                                                                                    "  1",
		`{"id":"` + strings.Repeat("x", 200) + `","method":"ping"}`:                                                                    "ping  ",
		`{"id":{"a":1},"method":"ping","params":null}`:                                                                                 "ping  ",
		`[{"id":1,"method":"tools/call","params":{"name":"a"}},{"method":"tools/call","params":{"name":"b"}}]`:                         "tools/call a 1, tools/call b ",
		`{"method":"ping","params":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "}":                                         "ping  ",
	} {
		messages, err := read(text)
		var parts []string
		for _, m := range messages {
			parts = append(parts, fmt.Sprintf("%s %s %s", m.method, m.name, m.id))
		}
		if got := strings.Join(parts, ", "); (err != nil) != (want == "error") || err == nil && got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// FuzzQ20Messages: the reader never panics, agrees with encoding/json about what it accepts, and forwards the bytes
// unchanged.
func FuzzQ20Messages(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,2.5e-3,"\u00e9\ud83d\ude00",null,true]}}}`,
		`[{"method":"ping"},{"method":"tools/call","params":{"name":"x"}}]`, `{"params":{"uri":"a"},"method":"resources/read"}`, `{"m\u0065thod":"a","Method":"b"}`, `{"id":-0.5E+1}`, "[", `{"a":"`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		r := &http.Request{Body: io.NopCloser(bytes.NewReader(text)), ContentLength: -1, Header: http.Header{}}
		asked, err := Read(r)
		if !bytes.Equal(before, text) {
			t.Fatal("the text was changed")
		}
		if err != nil || len(text) == 0 {
			return
		}
		if passed, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(passed, before) {
			t.Fatalf("%q goes on, %v", passed, err)
		}
		if !json.Valid(text) {
			t.Fatal("this is not JSON")
		}
		type object struct {
			Method *string         `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		var messages []object
		if err := json.Unmarshal(text, &messages); err != nil {
			messages = make([]object, 1)
			if err := json.Unmarshal(text, &messages[0]); err != nil {
				t.Fatal(err)
			}
		}
		var calls []string
		for _, m := range messages {
			if m.Method == nil || *m.Method != methodCallTool {
				continue
			}
			var params struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal(m.Params, &params); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, params.Name)
		}
		if len(calls) != len(asked.Calls) {
			t.Fatalf("%q, encoding/json reads %q", asked.Calls, calls)
		}
		for i, call := range asked.Calls {
			if call.Tool != calls[i] {
				t.Fatalf("%q, encoding/json reads %q", call.Tool, calls[i])
			}
			if call.ID != nil && !json.Valid(call.ID) {
				t.Fatalf("id %q", call.ID)
			}
		}
		if tools := asked.Tools(); len(tools) > maxToolsBytes+len("...") {
			t.Fatalf("%d bytes of names", len(tools))
		}
	})
}

// call returns a tool call with arguments of size bytes.
func call(size int) []byte {
	var arguments strings.Builder
	for i := 0; arguments.Len() < size; i++ {
		fmt.Fprintf(&arguments, `,"field_%d":{"text":"The quick brown fox jumps over the lazy dog. \u00e9","n":[%d,true,null]}`, i, i)
	}
	return []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"a":1` + arguments.String() + `}}}`)
}

// BenchmarkRead reads requests as `protect` does.
func BenchmarkRead(b *testing.B) {
	for name, text := range map[string][]byte{
		"150 bytes": call(60), "4 KiB": call(4000), "256 KiB": call(255 << 10),
		"4 KiB of text": []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"read_file","arguments":{"note":"` + strings.Repeat("x", 4000) + `"}}}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			r := &http.Request{ContentLength: int64(len(text)), Header: http.Header{"Content-Type": {"application/json"}, methodHeader: {methodCallTool}, nameHeader: {"read_file"}}}
			for b.Loop() {
				r.Body = io.NopCloser(bytes.NewReader(text))
				if _, err := Read(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestReadingTakesBoundedMemory: the reader keeps the member names of a large object to detect duplicates. The
// largest body with the smallest members takes 6 MiB for that.
func TestReadingTakesBoundedMemory(t *testing.T) {
	var members strings.Builder
	for i := 0; members.Len() < maxBodyBytes-100; i++ {
		fmt.Fprintf(&members, `"%x":0,`, i)
	}
	text := []byte(`{"method":"ping","params":{` + members.String() + `"last":0}}`)
	read := func() {
		r := &http.Request{ContentLength: int64(len(text)), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text))}
		if _, err := Read(r); err != nil {
			t.Fatal(err)
		}
	}
	read()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes for %d", took, len(text))
	}
}
