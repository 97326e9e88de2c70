//! Archives, byte by byte, and a state directory to install them in.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use pincer_hooks::events::Installing;
use pincer_install::{Consent, InstallError, Installs, Judged, Kind, Policy, Record, Refusal, Staged};
use tempfile::TempDir;

pub(crate) const MANIFEST: &str = "{ id: 'notes', version: '1.0.0', command: ['python3', 'notes.py'], tools: [] }";

/// An entry of an archive of tar.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: Vec<u8>,
    pub kind: u8,
    pub mode: u32,
    pub link: &'static str,
    pub content: Vec<u8>,
    /// The size in the header; the length of the content if `None`.
    pub size: Option<u64>,
}

pub(crate) fn file(name: &str, content: &str) -> Entry {
    let content = content.as_bytes().to_vec();
    Entry { name: name.as_bytes().to_vec(), kind: b'0', mode: 0o644, link: "", content, size: None }
}

pub(crate) fn of_kind(name: &str, kind: u8, link: &'static str) -> Entry {
    Entry { kind, link, ..file(name, "") }
}

impl Entry {
    pub(crate) fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut block = [0_u8; 512];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name[..self.name.len().min(100)]);
        put(100, format!("{:07o}\0", self.mode).as_bytes());
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", self.size.unwrap_or(self.content.len() as u64)).as_bytes());
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, &[self.kind]);
        put(157, self.link.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut out = block.to_vec();
        out.extend(&self.content);
        out.resize(out.len().next_multiple_of(512), 0);
        out
    }
}

/// An archive of tar, with its end.
pub(crate) fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut out: Vec<u8> = entries.iter().flat_map(Entry::bytes).collect();
    out.resize(out.len() + 1024, 0);
    out
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An entry of a zip, with what its two headers say.
#[derive(Clone, Debug)]
pub(crate) struct Zipped {
    pub name: String,
    /// The name in the header before the content.
    pub local_name: String,
    pub mode: u32,
    pub flags: u16,
    pub method: u16,
    pub content: Vec<u8>,
    /// The size in the headers.
    pub bytes: Option<u32>,
    pub checksum: Option<u32>,
    pub extra: Vec<u8>,
    /// Bytes between this entry and the next.
    pub gap: Vec<u8>,
}

pub(crate) fn zipped(name: &str, content: &str) -> Zipped {
    Zipped {
        name: name.into(),
        local_name: name.into(),
        mode: 0o100_644,
        flags: 0,
        method: 8,
        content: content.as_bytes().to_vec(),
        bytes: None,
        checksum: None,
        extra: Vec::new(),
        gap: Vec::new(),
    }
}

pub(crate) fn zip(entries: &[Zipped]) -> Vec<u8> {
    let (mut out, mut list) = (Vec::new(), Vec::new());
    for entry in entries {
        let at = out.len() as u32;
        let mut crc = flate2::Crc::new();
        crc.update(&entry.content);
        let packed = match entry.method {
            8 => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(&entry.content).unwrap();
                encoder.finish().unwrap()
            }
            _ => entry.content.clone(),
        };
        let shared = |name: &str| {
            let mut shared = Vec::new();
            shared.extend(20_u16.to_le_bytes());
            shared.extend(entry.flags.to_le_bytes());
            shared.extend(entry.method.to_le_bytes());
            shared.extend([0; 4]);
            shared.extend(entry.checksum.unwrap_or(crc.sum()).to_le_bytes());
            shared.extend((packed.len() as u32).to_le_bytes());
            shared.extend(entry.bytes.unwrap_or(entry.content.len() as u32).to_le_bytes());
            shared.extend((name.len() as u16).to_le_bytes());
            shared.extend((entry.extra.len() as u16).to_le_bytes());
            shared
        };
        out.extend(b"PK\x03\x04");
        out.extend(shared(&entry.local_name));
        out.extend(entry.local_name.as_bytes());
        out.extend(&entry.extra);
        out.extend(&packed);
        out.extend(&entry.gap);
        list.extend(b"PK\x01\x02\x14\x03");
        list.extend(shared(&entry.name));
        list.extend([0; 6]);
        list.extend((entry.mode << 16).to_le_bytes());
        list.extend(at.to_le_bytes());
        list.extend(entry.name.as_bytes());
        list.extend(&entry.extra);
    }
    let (list_at, count) = (out.len() as u32, entries.len() as u16);
    out.extend(&list);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend((list.len() as u32).to_le_bytes());
    out.extend(list_at.to_le_bytes());
    out.extend([0; 2]);
    out
}

/// A state directory, with something beside it that must stay as it is.
pub(crate) struct Home {
    folder: TempDir,
    pub installs: Installs,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("outside"), "as it was").unwrap();
        let installs = Installs::new(&folder.path().join("state"));
        Self { folder, installs }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn source(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// A folder with these files.
    pub(crate) fn folder(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        for (path, content) in files {
            let path = self.path(name).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        self.path(name)
    }

    pub(crate) fn install(&self, kind: Kind, source: &Path) -> Result<Record, InstallError> {
        Ok(judged(self.installs.stage(kind, source)?)?.accept(Consent::Given)?.commit()?.record)
    }

    /// The reason for which an archive is refused.
    pub(crate) fn refusal(&self, bytes: &[u8]) -> Option<Refusal> {
        let source = self.source("archive", bytes);
        match self.install(Kind::Plugin, &source) {
            Ok(_) => None,
            Err(InstallError::Refused { refusal, .. }) => Some(refusal),
            Err(other) => panic!("{other}"),
        }
    }

    /// All that is in the state directory and beside it, but for the work folder, which holds nothing but its lock.
    pub(crate) fn everything(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(self.folder.path(), self.folder.path(), &mut found);
        found.sort();
        found
    }
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
        if path.symlink_metadata().unwrap().is_dir() {
            walk(root, &path, found);
        }
    }
}

/// The answer of no hooks.
pub(crate) fn go() -> Installing {
    Installing::Go { findings: Vec::new() }
}

pub(crate) fn judged(staged: Staged) -> Result<Judged, InstallError> {
    staged.permit(&Policy::new(&Default::default()).unwrap())?.scan()?.judged(&go())
}
