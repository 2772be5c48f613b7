package chat

func (p *parser) macroTag(at token) (stmt, error) {
	name, err := p.expectKind(tokName, "the macro's name")
	if err != nil {
		return nil, err
	}
	m := &macro{name: name.text, line: at.line}
	if err := p.signature(m); err != nil {
		return nil, err
	}
	if err := p.macroBody(m, "endmacro"); err != nil {
		return nil, err
	}
	return &macroStmt{m}, nil
}

// callTag is a call of a macro that gets the block as its caller.
func (p *parser) callTag(at token) (stmt, error) {
	m := &macro{name: "caller", line: at.line}
	if p.isOp("(") {
		if err := p.signature(m); err != nil {
			return nil, err
		}
	}
	x, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := x.(*chain)
	if !ok {
		return nil, p.errorf(at.line, "expected the call of a macro")
	}
	last, ok := call.links[len(call.links)-1].(*callLink)
	if !ok {
		return nil, p.errorf(at.line, "expected the call of a macro")
	}
	// The chain belongs to this statement alone, so its call can take the
	// block as one more keyword.
	last.args.keywords = append(last.args.keywords, keywordExpr{"caller", &macroExpr{m}})
	if err := p.macroBody(m, "endcall"); err != nil {
		return nil, err
	}
	return &printStmt{at.line, x}, nil
}

// signature reads parameters and their defaults.
func (p *parser) signature(m *macro) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	for !p.isOp(")") {
		if len(m.params) > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
		}
		name, err := p.expectKind(tokName, "the name of a parameter")
		if err != nil {
			return err
		}
		var preset expr
		if p.skipOp("=") {
			if preset, err = p.expression(); err != nil {
				return err
			}
		} else if n := len(m.presets); n > 0 && m.presets[n-1] != nil {
			return p.errorf(name.line, "parameter %s without a default after one with", short(name.text))
		}
		m.params, m.presets = append(m.params, name.text), append(m.presets, preset)
	}
	return p.expectOp(")")
}

// macroBody reads a macro's block. References to varargs, kwargs and caller
// in it say whether the macro takes them.
func (p *parser) macroBody(m *macro, end string) error {
	around := p.macro
	p.macro = m
	defer func() { p.macro = around }()
	var err error
	m.body, err = p.apart(end)
	return err
}

// target reads what can be assigned to: names, tuples of names and, where
// fields is set, fields of namespaces.
func (p *parser) target(fields bool) (target, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	first, err := p.oneTarget(fields)
	if err != nil || !p.isOp(",") {
		return first, err
	}
	to := tupleTarget{first}
	for p.skipOp(",") {
		if p.cur().kind != tokName && !p.isOp("(") || p.isName("in") {
			break
		}
		next, err := p.oneTarget(fields)
		if err != nil {
			return nil, err
		}
		to = append(to, next)
	}
	return to, nil
}

func (p *parser) oneTarget(fields bool) (target, error) {
	if p.skipOp("(") {
		to, err := p.target(fields)
		if err != nil {
			return nil, err
		}
		return to, p.expectOp(")")
	}
	t, err := p.expectKind(tokName, "a name to assign to")
	if err != nil {
		return nil, err
	}
	if _, ok := constants[t.text]; ok || keywords[t.text] {
		return nil, p.errorf(t.line, "cannot assign to %s", t.text)
	}
	if fields && p.skipOp(".") {
		field, err := p.expectKind(tokName, "the name of a field")
		return fieldTarget{t.text, field.text}, err
	}
	return nameTarget(t.text), nil
}
