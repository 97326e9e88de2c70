//! A home directory with configs in it.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::fs;

use pincer_clients::{Client, ClientFile, Importer, Reading, Secrets, Surroundings, System, files_of};
use serde_json::Value;

pub(crate) struct Home {
    pub folder: tempfile::TempDir,
    pub around: Surroundings,
}

impl Home {
    pub(crate) fn new(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut around = Surroundings::new(folder.path().join("home"), folder.path().join("app"), System::Linux);
        around.variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { folder, around }
    }

    pub(crate) fn with(self, file: &ClientFile, text: &str) -> Self {
        fs::create_dir_all(file.path.parent().unwrap()).unwrap();
        fs::write(&file.path, text).unwrap();
        self
    }

    pub(crate) fn file(&self, client: Client, index: usize) -> ClientFile {
        files_of(client, &self.around).swap_remove(index)
    }
}

pub(crate) fn read(client: Client, index: usize, text: &str) -> Reading {
    let home = Home::new(&[("SET", "now")]);
    let file = home.file(client, index);
    let home = home.with(&file, text);
    Importer::new(&home.around, Secrets::Keep).read(&file).unwrap()
}

/// The servers that were read, as our config would have them.
pub(crate) fn shown(reading: &Reading) -> Value {
    let servers: serde_json::Map<String, Value> =
        reading.servers.iter().map(|found| (found.name.clone(), found.server.written())).collect();
    servers.into()
}

pub(crate) fn remarks(reading: &Reading) -> Vec<String> {
    reading.servers.iter().flat_map(|found| &found.remarks).chain(&reading.remarks).cloned().collect()
}
