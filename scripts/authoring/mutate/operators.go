// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// Operator is a kind of change.
type Operator string

// These are the operators. Those of the syntax tree are usual in mutation testing. The last two are specific to this
// course.
const (
	NegateCondition Operator = "negate-condition" // if c → if !(c), return c → return !(c)
	DropCondition   Operator = "drop-condition"   // if c → if true, if false; a && b → a
	Comparison      Operator = "comparison"       // < → <=, == → !=
	Connective      Operator = "connective"       // && → ||
	Constant        Operator = "constant"         // 3 → 4, true → false, "a" → "ax"
	RemoveStatement Operator = "remove-statement" // a call, an assignment, a loop, an if, a continue
	DropError       Operator = "drop-error"       // return err → return nil
	SwapArguments   Operator = "swap-arguments"   // f(a, b) → f(b, a)
	DropArgument    Operator = "drop-argument"    // the last of variadic arguments
	DropElement     Operator = "drop-element"     // T{A: a, B: b} → T{A: a}
	DropCall        Operator = "drop-call"        // a call in a chain: a.B().C() → a.C()
	Arithmetic      Operator = "arithmetic"       // + → -, ++ → --
	OtherValue      Operator = "other-value"      // another parameter or receiver field of the same type
	RemoveMarker    Operator = "remove-marker"    // +kubebuilder:…, +listType=…
	WidenMarker     Operator = "widen-marker"     // verbs=get → verbs=*, MaxItems=3 → MaxItems=4
)

func (o Operator) ofMarkers() bool { return o == RemoveMarker || o == WidenMarker }

// syntaxTree generates the mutants of the file's declarations.
func (s *source) syntaxTree() {
	for _, declaration := range s.syntax.Decls {
		if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			if n == nil || isHumanText(n) || s.texts[n] {
				return false
			}
			s.node(n)
			_, isField := n.(*ast.Field)
			return !isField // the tag of a field is already done
		})
	}
}

// isHumanText reports whether a node is text for humans, such as a log message. No verdict depends on such a node.
func isHumanText(n ast.Node) bool {
	if pair, ok := n.(*ast.KeyValueExpr); ok {
		key, ok := pair.Key.(*ast.Ident)
		return ok && (key.Name == "Message" || key.Name == "Description") // of a condition, of a column
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch selector.Sel.Name {
	case "Info", "Warn", "Error", "Errorf", "V", "WithValues", "Eventf":
		return true
	}
	receiver, ok := selector.X.(*ast.Ident)
	return ok && receiver.Name == "errors" && selector.Sel.Name == "New"
}

// node generates the mutants of one node.
func (s *source) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.Field:
		if n.Tag != nil {
			s.tag(n.Tag)
		}
	case *ast.IfStmt:
		s.condition(n)
	case *ast.ForStmt:
		if n.Cond != nil {
			s.replace(DropCondition, n.Cond, "false")
		}
	case *ast.BinaryExpr:
		s.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			s.replace(NegateCondition, n, s.text(n.X))
		}
	case *ast.BasicLit:
		s.literal(n)
	case *ast.Ident:
		s.ident(n)
	case *ast.BlockStmt:
		s.statements(n.List)
	case *ast.CaseClause:
		s.statements(n.Body)
	case *ast.ReturnStmt:
		s.returned(n)
	case *ast.CallExpr:
		s.call(n)
	case *ast.CompositeLit:
		for i := range n.Elts {
			s.element(DropElement, n.Elts, i, n.Rbrace)
		}
	case *ast.IncDecStmt:
		other := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
		s.replace(Arithmetic, n, s.text(n.X)+other)
	case *ast.AssignStmt:
		if other, ok := map[token.Token]string{token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}[n.Tok]; ok {
			s.replaceRange(Arithmetic, n.TokPos, n.TokPos+2, other)
		}
	case *ast.SelectorExpr:
		s.field(n)
	}
}

func (s *source) condition(n *ast.IfStmt) {
	s.negate(n.Cond)
	if n.Init != nil || n.Else != nil { // otherwise it is as if the statement was missing
		s.replace(DropCondition, n.Cond, "false")
	}
	s.replace(DropCondition, n.Cond, "true")
}

// negate negates a boolean expression. It leaves out expressions that another mutant negates already, by removing a !
// or by the opposite comparison.
func (s *source) negate(n ast.Expr) {
	switch n := ast.Unparen(n).(type) {
	case *ast.UnaryExpr, *ast.Ident:
	case *ast.BinaryExpr:
		if n.Op != token.EQL && n.Op != token.NEQ {
			s.replace(NegateCondition, n, "!("+s.text(n)+")")
		}
	default:
		s.replace(NegateCondition, n, "!("+s.text(n)+")")
	}
}

// tag changes the JSON name of a field.
func (s *source) tag(n *ast.BasicLit) {
	text := s.text(n)
	if from := strings.Index(text, `json:"`); from >= 0 {
		from += len(`json:"`)
		if length := strings.IndexAny(text[from:], `,"`); length > 0 {
			name := text[from : from+length]
			s.replace(Constant, n, text[:from]+name+"x"+text[from+length:])
		}
	}
	if strings.Contains(text, ",omitempty") {
		s.replace(Constant, n, strings.Replace(text, ",omitempty", "", 1))
	}
}

// others lists the operators that authors confuse with one another.
var others = map[token.Token]struct {
	operator     Operator
	replacements []string
}{
	token.LSS: {Comparison, []string{"<=", ">"}}, token.LEQ: {Comparison, []string{"<", ">="}},
	token.GTR: {Comparison, []string{">=", "<"}}, token.GEQ: {Comparison, []string{">", "<="}},
	token.EQL: {Comparison, []string{"!="}}, token.NEQ: {Comparison, []string{"=="}},
	token.LAND: {Connective, []string{"||"}}, token.LOR: {Connective, []string{"&&"}},
	token.ADD: {Arithmetic, []string{"-"}}, token.SUB: {Arithmetic, []string{"+"}},
	token.MUL: {Arithmetic, []string{"/"}}, token.QUO: {Arithmetic, []string{"*"}},
}

func (s *source) binary(n *ast.BinaryExpr) {
	other, ok := others[n.Op]
	for _, replacement := range other.replacements {
		s.replaceRange(other.operator, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), replacement)
	}
	if ok && other.operator == Connective {
		s.replace(DropCondition, n, s.text(n.X))
		s.replace(DropCondition, n, s.text(n.Y))
	}
}

func (s *source) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if value, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			s.replace(Constant, n, fmt.Sprint(value+1))
			if value > 0 {
				s.replace(Constant, n, fmt.Sprint(value-1))
			}
		}
	case token.STRING:
		if value, err := strconv.Unquote(n.Value); err == nil && value != "" {
			s.replace(Constant, n, strconv.Quote(value+"x"))
		}
	}
}

// ident negates true and false, and replaces a variable by another of the same type.
func (s *source) ident(n *ast.Ident) {
	switch object := s.info.Uses[n].(type) {
	case *types.Const:
		switch object.Name() {
		case "true":
			s.replace(Constant, n, "false")
		case "false":
			s.replace(Constant, n, "true")
		}
	case *types.Var:
		if object.IsField() || object.Parent() == nil {
			return
		}
		scope := object.Parent()
		for _, name := range scope.Names() {
			other, ok := scope.Lookup(name).(*types.Var)
			if ok && other != object && other.Pos() < n.Pos() && types.Identical(other.Type(), object.Type()) && name != "_" {
				s.replace(OtherValue, n, name)
			}
		}
	}
}

// field replaces a field by another field of the same object that can be assigned to it, such as the cache instead of
// the API server.
func (s *source) field(n *ast.SelectorExpr) {
	selection := s.info.Selections[n]
	if selection == nil || selection.Kind() != types.FieldVal {
		return
	}
	receiver := selection.Recv()
	if pointer, ok := receiver.Underlying().(*types.Pointer); ok {
		receiver = pointer.Elem()
	}
	structure, ok := receiver.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for other := range structure.Fields() {
		if other.Name() != n.Sel.Name && types.AssignableTo(other.Type(), selection.Type()) {
			s.replace(OtherValue, n.Sel, other.Name())
		}
	}
}

// statements removes each statement that can be left out.
func (s *source) statements(list []ast.Stmt) {
	for _, statement := range list {
		switch n := statement.(type) {
		case *ast.ExprStmt:
			if !isHumanText(n.X) {
				s.replace(RemoveStatement, n, "")
			}
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				s.replace(RemoveStatement, n, "")
			}
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.IncDecStmt,
			*ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.BranchStmt:
			s.replace(RemoveStatement, n, "")
		case *ast.ReturnStmt:
			if len(n.Results) == 0 {
				s.replace(RemoveStatement, n, "")
			}
		}
	}
}

// returned negates boolean results, and returns nil instead of errors. A call that returns the error still happens.
func (s *source) returned(n *ast.ReturnStmt) {
	for i, result := range n.Results {
		switch kind := s.info.TypeOf(result); {
		case kind == nil:
		case types.Identical(kind, types.Typ[types.Bool]), types.Identical(kind, types.Typ[types.UntypedBool]):
			s.negate(result)
		case kind.String() != "error":
		case i == len(n.Results)-1 && isCall(result) && !isConstructor(result):
			others := string(s.content[s.offset(n.Results[0].Pos()):s.offset(result.Pos())])
			s.replace(DropError, n, fmt.Sprintf("{ _ = %s; return %snil }", s.text(result), others))
		default:
			s.replace(DropError, result, "nil")
		}
	}
}

func isCall(n ast.Expr) bool {
	_, ok := ast.Unparen(n).(*ast.CallExpr)
	return ok
}

// isConstructor reports whether a call only creates an error.
func isConstructor(n ast.Expr) bool {
	call, ok := ast.Unparen(n).(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name, ok := selector.X.(*ast.Ident)
	return ok && (name.Name == "fmt" || name.Name == "errors" || name.Name == "client" || name.Name == "field")
}

// call swaps adjacent arguments of the same type. It also drops optional parts: the last variadic argument, or a call
// in a chain.
func (s *source) call(n *ast.CallExpr) {
	signature, ok := s.info.TypeOf(n.Fun).(*types.Signature)
	if !ok || isHumanText(n) {
		return
	}
	s.errorTexts(n, signature)
	for i := range len(n.Args) - 1 {
		a, b := n.Args[i], n.Args[i+1]
		if types.Identical(s.info.TypeOf(a), s.info.TypeOf(b)) {
			s.replaceRange(SwapArguments, a.Pos(), b.End(),
				s.text(b)+string(s.content[s.offset(a.End()):s.offset(b.Pos())])+s.text(a))
		}
	}
	if signature.Variadic() && len(n.Args) >= signature.Params().Len() && !n.Ellipsis.IsValid() {
		s.element(DropArgument, n.Args, len(n.Args)-1, n.Rparen)
	}
	if method, ok := n.Fun.(*ast.SelectorExpr); ok && isCall(method.X) &&
		types.Identical(s.info.TypeOf(method.X), s.info.TypeOf(n)) {
		s.replaceRange(DropCall, method.X.End(), n.End(), "")
	}
}

// errorTexts records which arguments of a call are the text of the error that it creates, as in NewBadRequest or
// field.Invalid.
func (s *source) errorTexts(n *ast.CallExpr, signature *types.Signature) {
	fails := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	if signature.Results().Len() != 1 || !types.Implements(signature.Results().At(0).Type(), fails) {
		return
	}
	for i := range min(len(n.Args), signature.Params().Len()) {
		switch signature.Params().At(i).Name() {
		case "message", "reason", "detail":
			s.texts[n.Args[i]] = true
		}
	}
}

// element removes an element of a list, with the comma that separates it from the others.
func (s *source) element(operator Operator, list []ast.Expr, i int, end token.Pos) {
	switch {
	case i+1 < len(list):
		s.replaceRange(operator, list[i].Pos(), list[i+1].Pos(), "")
	case i > 0:
		s.replaceRange(operator, list[i-1].End(), list[i].End(), "")
	default:
		s.replaceRange(operator, list[i].Pos(), end, "")
	}
}
