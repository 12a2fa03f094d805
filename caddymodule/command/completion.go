package command

import (
	"reflect"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// memberValues are the values of members that have few, by type. A configuration may declare other roles.
var memberValues = map[reflect.Type][]string{
	reflect.TypeFor[store.Role]():       {string(store.RoleAdmin), string(store.RoleGroupManager), string(store.RoleBusinessManager), string(store.RoleMember)},
	reflect.TypeFor[store.UserStatus](): {string(store.UserActive), string(store.UserDisabled), string(store.UserLocked)},
	reflect.TypeFor[store.ClientType](): {string(store.ConfidentialClient), string(store.PublicClient), string(store.NativeClient)},
}

// completes lets a shell complete the values of a flag.
func completes(cmd *cobra.Command, flag string, values []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}
