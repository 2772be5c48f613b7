package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// spacedValues refuses what looks like the value of a flag that may stand
// without one, but comes after a space: "--profile run.json" and "--normalize
// false" would make a text of the value. An argument that the command cannot do
// without is no value: "train --profile config.json" means what it says.
func spacedValues(root *cobra.Command, args []string) (*cobra.Command, error) {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return root, nil // it will be said
	}
	var plain []string // arguments that are no flags
	var suspects []suspect
	for i := 0; i < len(rest); i++ {
		if rest[i] == "--" {
			plain = append(plain, rest[i+1:]...)
			break
		}
		flag, valued := flagOf(cmd, rest[i])
		switch {
		case flag == nil && !strings.HasPrefix(rest[i], "-"):
			plain = append(plain, rest[i])
		case flag == nil || valued || i+1 == len(rest):
		case flag.NoOptDefVal == "":
			i++ // its value
		case looksLikeValue(flag, rest[i+1]):
			suspects = append(suspects, suspect{flag.Name, rest[i+1], len(plain)})
		}
	}
	for _, s := range suspects {
		others := append(plain[:s.at:s.at], plain[s.at+1:]...)
		if cmd.ValidateArgs(others) == nil {
			return cmd, usagef("--%s %s: write --%[1]s=%[2]s, or put another flag between if %[2]s is a text", s.flag, s.value)
		}
	}
	return cmd, nil
}

// suspect is an argument that may be meant as the value of a flag.
type suspect struct {
	flag, value string
	at          int // among the arguments that are no flags
}

// flagOf is the flag that an argument names, and whether its value stands
// behind it.
func flagOf(cmd *cobra.Command, arg string) (flag *pflag.Flag, valued bool) {
	if name, ok := strings.CutPrefix(arg, "--"); ok {
		name, _, valued = strings.Cut(name, "=")
		return cmd.Flags().Lookup(name), valued
	}
	if len(arg) > 1 && arg[0] == '-' && arg[1] < 0x80 {
		return cmd.Flags().ShorthandLookup(arg[1:2]), len(arg) > 2
	}
	return nil, false
}

// looksLikeValue tells a value of a flag from a text.
func looksLikeValue(flag *pflag.Flag, arg string) bool {
	if flag.Value.Type() == "bool" {
		return strings.EqualFold(arg, "true") || strings.EqualFold(arg, "false")
	}
	return exportable(strings.ToLower(arg))
}
