package chat

// postfix reads fields, indexes and calls.
func (p *parser) postfix() ([]link, error) {
	var links []link
	for {
		var next link
		var err error
		switch t := p.cur(); {
		case p.skipOp("."):
			next, err = p.field(t.line)
		case p.skipOp("["):
			next, err = p.subscript(t.line)
		case p.isOp("("):
			call := &callLink{line: t.line}
			call.args, err = p.arguments()
			next = call
		default:
			return links, nil
		}
		if err != nil {
			return nil, err
		}
		links = append(links, next)
	}
}

func (p *parser) field(line int) (link, error) {
	switch t := p.next(); t.kind {
	case tokName:
		return &fieldLink{line, t.text}, nil
	case tokInt:
		return &indexLink{line, &constExpr{t.num}}, nil
	default:
		return nil, p.errorf(t.line, "%v, expected the name of a field", t)
	}
}

// subscript reads an index or a slice after its bracket.
func (p *parser) subscript(line int) (link, error) {
	var parts [3]expr
	n := 0
	for ; n < 3; n++ {
		if !p.isOp(":") && !p.isOp("]") {
			var err error
			if parts[n], err = p.expression(); err != nil {
				return nil, err
			}
		}
		if !p.skipOp(":") {
			break
		}
	}
	if err := p.expectOp("]"); err != nil {
		return nil, err
	}
	if n > 0 {
		return &sliceLink{line, parts}, nil
	}
	if parts[0] == nil {
		return nil, p.errorf(line, "an empty index")
	}
	return &indexLink{line, parts[0]}, nil
}

// arguments reads what stands in the parentheses of a call.
func (p *parser) arguments() (a arguments, err error) {
	if err := p.expectOp("("); err != nil {
		return a, err
	}
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.skipOp(")") {
				break
			}
		}
		t := p.cur()
		switch {
		case a.spreadKeywords != nil || a.spread != nil && p.isOp("*"):
			return a, p.errorf(t.line, "an argument after the last that can be spread")
		case p.skipOp("*"):
			a.spread, err = p.expression()
		case p.skipOp("**"):
			a.spreadKeywords, err = p.expression()
		case t.kind == tokName && p.tokens[p.at+1].kind == tokOp && p.tokens[p.at+1].text == "=":
			p.at += 2
			var x expr
			x, err = p.expression()
			a.keywords = append(a.keywords, keywordExpr{t.text, x})
		case len(a.keywords) > 0 || a.spread != nil:
			return a, p.errorf(t.line, "an argument without name after one with")
		default:
			var x expr
			x, err = p.expression()
			a.list = append(a.list, x)
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// filters reads any number of filters.
func (p *parser) filters() ([]link, error) {
	var links []link
	for p.skipOp("|") {
		f, err := p.filter()
		if err != nil {
			return nil, err
		}
		links = append(links, f)
	}
	return links, nil
}

// filter reads a filter after its bar.
func (p *parser) filter() (link, error) {
	name, err := p.expectKind(tokName, "the name of a filter")
	if err != nil {
		return nil, err
	}
	f := &filterLink{line: name.line, name: name.text}
	if p.isOp("(") {
		f.args, err = p.arguments()
	}
	return f, err
}

// test reads "is" and what follows.
func (p *parser) test() ([]link, error) {
	p.at++
	negated := p.skipName("not")
	name, err := p.expectKind(tokName, "the name of a test")
	if err != nil {
		return nil, err
	}
	t := &testLink{line: name.line, name: name.text, negated: negated}
	next := p.cur()
	switch {
	case p.isOp("("):
		t.args, err = p.arguments()
	case p.isName("else"), p.isName("or"), p.isName("and"):
	case next.kind == tokName, next.kind == tokString, next.kind == tokInt, next.kind == tokFloat, p.isOp("["), p.isOp("{"):
		if p.isName("is") {
			return nil, p.errorf(next.line, "tests with is cannot be chained")
		}
		var x expr
		if x, err = p.primary(); err != nil {
			return nil, err
		}
		var links []link
		if links, err = p.postfix(); links != nil {
			x = &chain{x, links}
		}
		t.args.list = []expr{x}
	}
	return []link{t}, err
}
