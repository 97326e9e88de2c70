//! Namespaces become functions that are called once. What they export are accessors for their own variables, so that both
//! sides see what the other assigns and no reference has to be rewritten.

use oxc_ast::ast::{TSModuleBlock, TSNamespaceDeclaration, TSNamespaceDeclarationBody};
use oxc_ast_visit::walk_js::walk_ts_module_block;

use super::enums::quoted;
use super::exports::{Export, ExportKind, exports};
use super::scope::{ListKind, Members};
use super::strip::Strip;
use crate::edits::Side;

impl Strip<'_> {
    pub(super) fn namespace(&mut self, namespace: &TSNamespaceDeclaration<'_>) {
        let declare = self.scope.declare(&namespace.id.name);
        let mut parts = Parts { open: declare, close: String::new() };
        let (block, exports, members) = self.open_namespace(namespace, &mut parts);
        let (start, end) = (namespace.span.start, namespace.span.end);
        self.edits.insert(start, Side::Before, parts.open);
        self.edits.erase(start, block.span.start + 1);
        self.next_list = ListKind::Namespace { exports, members };
        walk_ts_module_block(self, block);
        self.edits.insert(end, Side::Behind, parts.close);
    }

    /// Writes the function around a namespace, and around all of `A.B.C`. The exports are those of the block.
    fn open_namespace<'n, 'a>(
        &mut self,
        outermost: &'n TSNamespaceDeclaration<'a>,
        parts: &mut Parts,
    ) -> (&'n TSModuleBlock<'a>, Vec<Export>, Members) {
        let mut namespace = outermost;
        let mut members = self.scope.members(&namespace.id.name);
        loop {
            let name = self.source(namespace.id.span).to_owned();
            let object = self.names.fresh();
            let own = exports(namespace);
            let own_names = own.iter().map(|export| export.name.as_str());
            let others = self.merged(namespace.span.start, &members, own_names);
            parts.open.push_str(&format!("(function({object}){{"));
            let mut close = format!(")({name}||({name}={{}}));");
            if !others.is_empty() {
                if self.is_strict {
                    self.refuse(namespace.span.start, "namespaces cannot be merged in strict code");
                }
                parts.open.push_str(&scope_of_others(&object, &others));
                close.insert_str(0, ")()}}");
            }
            parts.define(&object, &own);
            match &namespace.body {
                TSNamespaceDeclarationBody::TSModuleBlock(block) => {
                    parts.close.insert_str(0, &close);
                    return (block, own, members);
                }
                TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => {
                    parts.close.insert_str(0, &format!("}}{close}"));
                    members = members.of(&inner.id.name);
                    namespace = inner;
                }
            }
        }
    }
}

/// What is written before and behind the block of a namespace.
struct Parts {
    open: String,
    close: String,
}

impl Parts {
    /// Exports variables. Objects go on where an earlier declaration of the namespace left them.
    fn define(&mut self, object: &str, exports: &[Export]) {
        if exports.is_empty() {
            return;
        }
        for export in exports.iter().filter(|export| export.kind == ExportKind::Object) {
            self.open.push_str(&format!("var {name}={object}[{}];", quoted(&export.name), name = export.name));
        }
        self.open.push_str(&format!("Object.defineProperties({object},{{"));
        for Export { name, kind } in exports {
            let key = quoted(name);
            self.open.push_str(&format!("[{key}]:{{enumerable:true,configurable:true,get(){{return {name}}}"));
            if *kind != ExportKind::Constant {
                self.open.push_str(&format!(",set({object}v){{{name}={object}v}}"));
            }
            self.open.push_str("},");
        }
        self.open.push_str("});");
    }
}

/// The names that other declarations of a namespace export, as a scope around this one.
fn scope_of_others(object: &str, names: &[String]) -> String {
    let mut scope = String::from("with({__proto__:null");
    for key in names.iter().map(|name| quoted(name)) {
        scope.push_str(&format!(
            ",get [{key}](){{return {object}[{key}]}},set [{key}]({object}v){{{object}[{key}]={object}v}}"
        ));
    }
    scope.push_str("}){(function(){");
    scope
}
