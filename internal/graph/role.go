package graph

// roleNames are the roles of weights in words, as configurations spell them.
var roleNames = [...]string{
	RoleOther: "other", RoleEmbedding: "embedding", RolePosition: "position", RoleQ: "q", RoleK: "k", RoleV: "v", RoleO: "o",
	RoleGate: "gate", RoleUp: "up", RoleDown: "down", RoleHead: "head", RoleNorm: "norm", RoleBias: "bias",
	RoleKV: "kv", RoleMoment: "moment", RoleRouter: "router", RoleGrad: "grad",
}

func (r Role) String() string { return roleNames[r] }

// RoleNames are the names of the roles that weights can be chosen by.
func RoleNames() []string {
	var names []string
	for r, name := range roleNames {
		if r := Role(r); r != RoleOther && r != RoleKV && r != RoleMoment && r != RoleGrad {
			names = append(names, name)
		}
	}
	return names
}
