//! What a program does that decides about it: modules it asks for, values it returns, syntax nobody runs.

use oxc_ast::AstKind;
use oxc_ast::ast::{Expression, FunctionBody, Statement, TSModuleReference};
use oxc_ast_visit::VisitJs;
use oxc_ast_visit::walk_js::walk_statement;
use oxc_span::GetSpan;

use crate::spine::walk_spine;
use crate::typescript::is_erased;

/// What was found. Positions are offsets of the parsed text.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The first thing that only modules have.
    module: Option<(u32, &'static str)>,
    /// The first call of `require`.
    require: Option<u32>,
    declares_require: bool,
    /// Whether the program itself returns.
    pub(crate) returns: bool,
    /// The first decorator or `accessor` field.
    pub(crate) unsupported: Option<(u32, &'static str)>,
    functions: u32,
    namespaces: u32,
}

impl Facts {
    pub(crate) fn of(body: &FunctionBody<'_>) -> Facts {
        let mut facts = Facts::default();
        facts.visit_function_body(body);
        facts
    }

    /// Where the program asks for a module, and by what.
    pub(crate) fn module_access(&self) -> Option<(u32, &'static str)> {
        let require = self.require.filter(|_| !self.declares_require).map(|at| (at, "`require()`"));
        self.module.into_iter().chain(require).min()
    }

    fn module(&mut self, at: u32, what: &'static str) {
        self.module = Some((at, what)).into_iter().chain(self.module).min();
    }

    fn callee(&mut self, callee: &Expression<'_>) {
        if callee.is_specific_id("require") {
            let at = callee.span().start;
            self.require = Some(self.require.map_or(at, |first| first.min(at)));
        }
    }

    fn unsupported(&mut self, at: u32, what: &'static str) {
        self.unsupported = Some((at, what)).into_iter().chain(self.unsupported).min();
    }
}

impl<'a> VisitJs<'a> for Facts {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        let at = kind.span().start;
        match kind {
            AstKind::Function(_) | AstKind::ArrowFunctionExpression(_) => self.functions += 1,
            AstKind::TSModuleBlock(_) => {
                self.functions += 1;
                self.namespaces += 1;
            }
            AstKind::ReturnStatement(_) => self.returns |= self.functions == 0,
            AstKind::ImportDeclaration(_) => self.module(at, "`import`"),
            AstKind::TSImportEqualsDeclaration(import) => {
                if matches!(import.module_reference, TSModuleReference::ExternalModuleReference(_)) {
                    self.module(at, "`import`");
                }
            }
            // A namespace exports to its own object.
            AstKind::ExportDeclaration(_) if self.namespaces > 0 => {}
            AstKind::ExportDeclaration(_)
            | AstKind::ExportNamedDeclaration(_)
            | AstKind::ExportFromDeclaration(_)
            | AstKind::ExportDefaultDeclaration(_)
            | AstKind::ExportAllDeclaration(_)
            | AstKind::TSExportAssignment(_) => self.module(at, "`export`"),
            AstKind::ImportExpression(_) => self.module(at, "`import()`"),
            AstKind::ImportMeta(_) => self.module(at, "`import.meta`"),
            AstKind::CallExpression(call) => self.callee(&call.callee),
            AstKind::NewExpression(call) => self.callee(&call.callee),
            AstKind::TaggedTemplateExpression(call) => self.callee(&call.tag),
            AstKind::BindingIdentifier(name) => self.declares_require |= name.name == "require",
            AstKind::Decorator(_) => self.unsupported(at, "decorators are not supported"),
            AstKind::AccessorProperty(_) => self.unsupported(at, "`accessor` fields are not supported"),
            _ => {}
        }
    }

    fn leave_node(&mut self, kind: AstKind<'a>) {
        match kind {
            AstKind::Function(_) | AstKind::ArrowFunctionExpression(_) => self.functions -= 1,
            AstKind::TSModuleBlock(_) => {
                self.functions -= 1;
                self.namespaces -= 1;
            }
            _ => {}
        }
    }

    fn visit_expression(&mut self, expression: &Expression<'a>) {
        walk_spine(self, expression);
    }

    fn visit_statement(&mut self, statement: &Statement<'a>) {
        match statement {
            Statement::TSNamespaceExportDeclaration(export) => self.module(export.span.start, "`export`"),
            // Outside of a namespace, even a type cannot be exported.
            Statement::ExportDeclaration(export) if self.namespaces == 0 => self.module(export.span.start, "`export`"),
            statement if is_erased(statement) => {}
            statement => walk_statement(self, statement),
        }
    }
}
