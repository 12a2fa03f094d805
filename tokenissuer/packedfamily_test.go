package tokenissuer

import (
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"
)

// fillFields gives every field of a structure a value of its own, that of the fields within as well.
func fillFields(t *testing.T, v reflect.Value, n *int64) {
	t.Helper()
	for i := range v.NumField() {
		f := v.Field(i)
		*n++
		switch value := f.Addr().Interface().(type) {
		case *Secret:
			*value = NewSecret("a secret")
			continue
		case *time.Time:
			*value = testStart.Add(time.Duration(*n)*time.Hour + time.Nanosecond).UTC()
			continue
		case *Scopes:
			*value = Scopes{"one", "two"}
			continue
		}
		if value, ok := f.Addr().Interface().(*[]string); ok {
			*value = []string{"three", "four"}
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprint("text ", *n))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(*n)
		case reflect.Struct:
			fillFields(t, f, n)
		default:
			t.Fatalf("a field of a kind that is new here: %v", f.Type())
		}
	}
}

// TestAPackedFamilySaysTheSame holds for every field that a family or a user has, and will have: one that is forgotten in walk
// comes back empty.
func TestAPackedFamilySaysTheSame(t *testing.T) {
	var full rememberedFamily
	var n int64
	fillFields(t, reflect.ValueOf(&full.family).Elem(), &n)
	fillFields(t, reflect.ValueOf(&full.user).Elem(), &n)
	negative := full
	negative.family.Generation, negative.family.TokenLifetime = -1, -1<<62
	odd := full
	odd.family.CreatedAt, odd.family.Note = time.Unix(-5, 7).UTC(), string(make([]byte, 3000))
	for name, want := range map[string]rememberedFamily{"all": full, "nothing": {}, "negative": negative, "odd": odd} {
		t.Run(name, func(t *testing.T) {
			packed := packFamily(&want.family, &want.user)
			family, user := packed.unpack()
			want.user.PasswordHash = Secret{}
			if !reflect.DeepEqual(*family, want.family) {
				t.Errorf("got  %+v\nwant %+v", *family, want.family)
			}
			if !reflect.DeepEqual(*user, want.user) {
				t.Errorf("got  %+v\nwant %+v", *user, want.user)
			}
			if packed.id() != want.family.ID {
				t.Errorf("its id is %q", packed.id())
			}
		})
	}
}

// TestARememberedFamilyIsOneText: the memory keeps the key that a family came with first, which must be no part of what is replaced.
func TestARememberedFamilyIsOneText(t *testing.T) {
	m := NewFamilyMemory()
	family, user := &TokenFamily{ID: "family-1"}, &User{ID: "user-1"}
	m.put(family, user)
	first, _ := m.families.GetIfPresent(family.ID)
	m.put(family, user)
	for id := range m.families.Keys() {
		if unsafe.StringData(id) == unsafe.StringData(first.id()) {
			t.Error("the first text is kept for its key")
		}
	}
}

// TestAFamilyMemoryStaysWithinItsBounds: in number, and in bytes where families are heavy.
func TestAFamilyMemoryStaysWithinItsBounds(t *testing.T) {
	for _, test := range []struct {
		name string
		note int
		most int
	}{
		{"light", 10, maxRememberedFamilies},
		{"heavy", 8000, maxFamilyBytes / 8000},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := NewFamilyMemory()
			for i := range 2 * maxRememberedFamilies {
				m.put(&TokenFamily{ID: fmt.Sprint("family-", i), Note: string(make([]byte, test.note))}, &User{ID: "user"})
			}
			m.families.CleanUp()
			if n := m.families.EstimatedSize(); n > test.most || n < test.most/2 {
				t.Errorf("%d families are remembered, want at most %d", n, test.most)
			}
		})
	}
}
