package ldap

import (
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"
)

func TestAFilterAsksForTheSubjectAsEachServerWritesIt(t *testing.T) {
	for subject, want := range map[string]string{
		"04030201-0605-0807-090a-0b0c0d0e0f10": `(objectGUID=\01\02\03\04\05\06\07\08\09\0a\0b\0c\0d\0e\0f\10)`, "a*b": "",
	} {
		filter := new(plan).subjectFilter(subject)
		if guid := strings.Contains(filter, objectGUID); guid != (want != "") || !strings.Contains(filter, want) || !strings.Contains(filter, "(entryUUID="+ldap.EscapeFilter(subject)+")") {
			t.Errorf("%s: %s", subject, filter)
		}
	}
}
