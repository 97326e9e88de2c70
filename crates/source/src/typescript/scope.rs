//! What enums and namespaces of one list of statements have to know of each other.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use oxc_ast::ast::{Declaration, Statement, TSNamespaceDeclaration, TSNamespaceDeclarationBody};

use super::exports::{Export, enum_members, exports};
use super::is_erased_declaration;

/// Where a list of statements stands.
#[derive(Default)]
pub(super) enum ListKind {
    /// In a block: what it declares ends with it.
    #[default]
    Block,
    /// In a function: `var` is declared there, too.
    Function,
    /// In a namespace.
    Namespace { exports: Vec<Export>, members: Members },
}

/// The names of everything that enums and namespaces have as members, by their own names: `A`, and `A.B` if it is exported.
type Objects = HashMap<String, Object>;

#[derive(Default)]
struct Object {
    names: BTreeSet<String>,
    declarations: u32,
}

/// The members of one enum or namespace, in all of its declarations.
#[derive(Clone)]
pub(super) struct Members {
    objects: Rc<Objects>,
    name: String,
}

impl Members {
    /// What a namespace that this one exports has.
    pub(super) fn of(&self, inner: &str) -> Members {
        Members { objects: self.objects.clone(), name: format!("{}.{inner}", self.name) }
    }

    /// The names, if there is more than one declaration.
    pub(super) fn merged(&self) -> impl Iterator<Item = &String> {
        let object = self.objects.get(&self.name).filter(|object| object.declarations > 1);
        object.into_iter().flat_map(|object| &object.names)
    }
}

/// What a list of statements declares.
#[derive(Default)]
pub(super) struct Scope {
    keyword: Keyword,
    /// Names that have a variable already.
    declared: HashSet<String>,
    objects: Rc<Objects>,
    /// The namespace that the list is the body of, and what it exports.
    namespace: Option<(Members, HashSet<String>)>,
}

/// What declares a variable for a list.
#[derive(Clone, Copy, Default)]
enum Keyword {
    #[default]
    Var,
    Let,
}

impl Scope {
    pub(super) fn of(statements: &[Statement<'_>], kind: ListKind) -> Scope {
        let mut scope = Scope::default();
        match kind {
            ListKind::Block => scope.keyword = Keyword::Let,
            ListKind::Function => {}
            ListKind::Namespace { exports, members } => {
                let names: HashSet<String> = exports.into_iter().map(|export| export.name).collect();
                scope.declared = names.clone();
                scope.namespace = Some((members, names));
            }
        }
        let mut objects = Objects::default();
        for declaration in statements.iter().filter_map(declaration_of) {
            add_object(&mut objects, String::new(), declaration);
        }
        if objects.is_empty() {
            return scope;
        }
        scope.objects = Rc::new(objects);
        for declaration in statements.iter().filter_map(declaration_of) {
            let id = match declaration {
                Declaration::FunctionDeclaration(function) => function.id.as_ref(),
                Declaration::ClassDeclaration(class) => class.id.as_ref(),
                _ => None,
            };
            scope.declared.extend(id.map(|id| id.name.to_string()));
        }
        scope
    }

    /// What declares the variable for an enum or a namespace, if nothing has yet.
    pub(super) fn declare(&mut self, name: &str) -> String {
        match (self.declared.insert(name.to_owned()), self.keyword) {
            (false, _) => ";".into(),
            (true, Keyword::Var) => format!("var {name};"),
            (true, Keyword::Let) => format!("let {name};"),
        }
    }

    /// The members of an enum or a namespace of this list.
    pub(super) fn members(&self, name: &str) -> Members {
        match &self.namespace {
            Some((members, exports)) if exports.contains(name) => members.of(name),
            _ => Members { objects: self.objects.clone(), name: name.to_owned() },
        }
    }
}

/// Notes a declaration that makes an object, and those that it exports.
fn add_object(objects: &mut Objects, path: String, declaration: &Declaration<'_>) {
    match declaration {
        Declaration::TSEnumDeclaration(declaration) => {
            let object = objects.entry(path + &declaration.id.name).or_default();
            object.names.extend(enum_members(declaration));
            object.declarations += 1;
        }
        Declaration::TSNamespaceDeclaration(namespace) => add_namespace(objects, path, namespace),
        _ => {}
    }
}

fn add_namespace(objects: &mut Objects, path: String, namespace: &TSNamespaceDeclaration<'_>) {
    let mut namespace = namespace;
    let mut path = path;
    loop {
        path.push_str(&namespace.id.name);
        let object = objects.entry(path.clone()).or_default();
        object.names.extend(exports(namespace).into_iter().map(|export| export.name));
        object.declarations += 1;
        path.push('.');
        match &namespace.body {
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => namespace = inner,
            TSNamespaceDeclarationBody::TSModuleBlock(block) => {
                for statement in &block.body {
                    if let Statement::ExportDeclaration(_) = statement
                        && let Some(declaration) = declaration_of(statement)
                    {
                        add_object(objects, path.clone(), declaration);
                    }
                }
                return;
            }
        }
    }
}

fn declaration_of<'t, 'a>(statement: &'t Statement<'a>) -> Option<&'t Declaration<'a>> {
    let declaration = match statement {
        Statement::ExportDeclaration(export) => &export.declaration,
        statement => statement.as_declaration()?,
    };
    (!is_erased_declaration(declaration)).then_some(declaration)
}

/// Names for our own variables that the program does not use.
pub(super) struct Names<'t> {
    text: &'t str,
    taken: Option<HashSet<u32>>,
    next: u32,
}

impl<'t> Names<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Names { text, taken: None, next: 0 }
    }

    /// `$0`, `$1`, … without those that stand anywhere in the text.
    pub(super) fn fresh(&mut self) -> String {
        let text = self.text;
        let taken = self.taken.get_or_insert_with(|| {
            let digits = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
            text.split('$').skip(1).filter_map(digits).collect()
        });
        while taken.contains(&self.next) {
            self.next += 1;
        }
        self.next += 1;
        format!("${}", self.next - 1)
    }
}
