//! Fits results and pictures to what models take.
//!
//! A conversation is sent again with every message, so a part that a provider refuses would be refused for ever. Such a part is not
//! stored: a note takes its place.

use std::ops::{AddAssign, SubAssign};

use pincer_model::{Content, Image};

use crate::event::shortened;

/// The most bytes of the texts of a result.
const MOST_RESULT: usize = 256 << 10;
/// The most bytes of the texts of all results of a reply.
const MOST_RESULTS: usize = 1 << 20;
/// The bytes that the texts of a result may always have, whatever the results before it took.
const LEAST_SHARE: usize = 1 << 10;
/// The types of pictures that all providers take.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The most bytes of a picture, in Base64.
const MOST_PICTURE: usize = 5 << 20;
/// The most bytes of the pictures of all results of a reply, in Base64. Providers take requests of about 32 MB.
const MOST_PICTURE_BYTES: usize = 20 << 20;
/// The most pictures of a result or a message.
pub(crate) const MOST_PICTURES: usize = 20;

/// The bytes of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub texts: usize,
    pub pictures: usize,
}

impl Size {
    pub(crate) fn of(content: &[Content]) -> Self {
        let mut size = Self::default();
        for part in content {
            match part {
                Content::Text(text) => size.texts += text.len(),
                Content::Image(Image::Data { base64, .. }) => size.pictures += base64.len(),
                Content::Image(Image::Url(_)) => {}
            }
        }
        size
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.texts += other.texts;
        self.pictures += other.pictures;
    }
}

impl SubAssign for Size {
    fn sub_assign(&mut self, other: Self) {
        self.texts = self.texts.saturating_sub(other.texts);
        self.pictures = self.pictures.saturating_sub(other.pictures);
    }
}

/// Returns the most bytes of a result, if the other results of its reply have `told` already. `window` is that of the model, in tokens.
///
/// A result gets at most half of what is left, so that those after it get something too, and at most a quarter of the window.
pub(crate) fn room(told: Size, window: Option<u64>) -> Size {
    // A token is about four bytes, so a quarter of the window has as many bytes as the window has tokens.
    let quarter = window.map_or(usize::MAX, |tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
    let left = MOST_RESULTS.min(quarter.saturating_mul(2)).saturating_sub(told.texts);
    Size {
        texts: (left / 2).min(MOST_RESULT).min(quarter).max(LEAST_SHARE),
        pictures: MOST_PICTURE_BYTES.saturating_sub(told.pictures),
    }
}

/// Returns why models do not take a picture, if they do not.
pub(crate) fn complaint(media_type: &str, base64: &str) -> Option<String> {
    let kind = shortened(media_type, 100);
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    match base64.len() {
        bytes if !PICTURES.contains(&media_type) => {
            Some(format!("it is {kind} with {bytes} bytes of Base64, and models take PNG, JPEG, GIF and WebP"))
        }
        bytes if bytes > MOST_PICTURE => {
            Some(format!("it is {kind} with {bytes} bytes of Base64, and may have {MOST_PICTURE}: make it smaller"))
        }
        0 => Some(format!("it is {kind} without data")),
        _ if !base64.bytes().all(is_base64) => Some(format!("it is {kind}, and its data is not Base64")),
        _ => None,
    }
}

/// Returns the note in place of a picture.
pub(crate) fn left_out(reason: &str) -> String {
    format!("[A picture was left out: {reason}.]")
}

/// Fits a result into its room. Of a long text the beginning and the end stay; a note takes the place of a picture that models do not
/// take.
pub(crate) fn fitted(content: Vec<Content>, room: Size) -> Vec<Content> {
    let mut fitting = Fitting { room, pictures: 0, left_out: 0, kept: Vec::new() };
    for part in content {
        match part {
            Content::Text(text) => fitting.text(text),
            Content::Image(image) => fitting.picture(image),
        }
    }
    let Fitting { left_out, mut kept, .. } = fitting;
    if left_out > 0 {
        kept.push(Content::Text(format!("[… {left_out} more parts left out here: ask for less, or in parts …]")));
    }
    kept
}

/// A result while it is fitted.
struct Fitting {
    room: Size,
    pictures: usize,
    /// The parts for which there was no room at all.
    left_out: usize,
    kept: Vec<Content>,
}

impl Fitting {
    fn text(&mut self, text: String) {
        match self.room.texts {
            // Nothing is lost.
            _ if text.is_empty() && !self.kept.is_empty() => {}
            0 if !text.is_empty() => self.left_out += 1,
            room if text.len() > room => {
                self.kept.push(Content::Text(middle_cut(&text, room)));
                self.room.texts = 0;
            }
            room => {
                self.room.texts = room - text.len();
                self.kept.push(Content::Text(text));
            }
        }
    }

    fn picture(&mut self, image: Image) {
        let (image, bytes, refused) = match image {
            Image::Data { media_type, base64 } => {
                let media_type = usual(&media_type);
                let (bytes, refused) = (base64.len(), complaint(&media_type, &base64));
                (Image::Data { media_type, base64 }, bytes, refused)
            }
            address @ Image::Url(_) => (address, 0, None),
        };
        let refused = refused.or_else(|| match () {
            () if self.pictures == MOST_PICTURES => Some(format!("a result may have {MOST_PICTURES}")),
            () if bytes > self.room.pictures => {
                Some(format!("the results of one reply have too many; it has {bytes} bytes"))
            }
            () => None,
        });
        match refused {
            Some(reason) => self.text(left_out(&reason)),
            None => {
                self.pictures += 1;
                self.room.pictures -= bytes;
                self.kept.push(Content::Image(image));
            }
        }
    }
}

/// Returns a media type in its usual form: servers write `image/jpg`, or add parameters.
fn usual(media_type: &str) -> String {
    let plain = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if plain == "image/jpg" { "image/jpeg".to_owned() } else { plain }
}

fn middle_cut(text: &str, bytes: usize) -> String {
    let (mut head, mut tail) = (bytes * 3 / 4, text.len() - bytes / 4);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!(
        "{}\n\n[… {} of {} bytes left out here: ask for less, or read it in parts …]\n\n{}",
        &text[..head],
        tail - head,
        text.len(),
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(media_type: &str, bytes: usize) -> Content {
        Content::Image(Image::Data { media_type: media_type.into(), base64: "A".repeat(bytes) })
    }

    fn words(content: &[Content]) -> Vec<&str> {
        let word = |part: &'_ Content| match part {
            Content::Text(text) => text.as_str().to_owned(),
            Content::Image(Image::Data { media_type, .. }) => media_type.clone(),
            Content::Image(Image::Url(url)) => url.clone(),
        };
        content.iter().map(|part| &*word(part).leak()).collect()
    }

    #[test]
    fn a_long_result_keeps_its_beginning_and_its_end() {
        let text = format!("begin{}ä{}end", "x".repeat(300_000), "y".repeat(300_000));
        let more = Content::Text("more".into());
        let fitted = fitted(vec![Content::Text(text), more.clone(), more], room(Size::default(), None));
        let Content::Text(first) = &fitted[0] else { panic!() };
        assert!(first.len() < MOST_RESULT + 200 && first.starts_with("beginx") && first.ends_with("yend"));
        assert!(first.contains("left out here"));
        assert_eq!(words(&fitted[1..]), ["[… 2 more parts left out here: ask for less, or in parts …]"]);
    }

    #[test]
    fn the_results_of_a_reply_are_bounded_together_and_by_the_window() {
        let total = |count: usize, window: Option<u64>| {
            let mut told = Size::default();
            for _ in 0..count {
                let result = fitted(vec![Content::Text("x".repeat(1 << 20))], room(told, window));
                told += Size::of(&result);
            }
            told.texts
        };
        assert!((MOST_RESULT..MOST_RESULT + 200).contains(&total(1, None)));
        assert!(total(10, None) <= MOST_RESULTS + 10 * (LEAST_SHARE + 200));
        assert!((8_000..8_400).contains(&total(1, Some(8_000))));
        assert!(total(10, Some(8_000)) <= 16_000 + 10 * (LEAST_SHARE + 200));
        assert_eq!(room(Size { texts: MOST_RESULTS, pictures: 0 }, None).texts, LEAST_SHARE);
    }

    #[test]
    fn pictures_that_models_do_not_take_become_notes() {
        let check = |content: Vec<Content>, expected: &[&str]| {
            assert_eq!(words(&fitted(content, room(Size::default(), None))), expected);
        };
        check(
            vec![picture("image/png", 8), picture("image/JPG; q=1", 8), picture("image/webp", MOST_PICTURE)],
            &["image/png", "image/jpeg", "image/webp"],
        );
        check(
            vec![picture("image/svg+xml", 8)],
            &[
                "[A picture was left out: it is image/svg+xml with 8 bytes of Base64, and models take PNG, JPEG, GIF and WebP.]",
            ],
        );
        check(
            vec![picture("image/png", MOST_PICTURE + 1)],
            &[
                "[A picture was left out: it is image/png with 5242881 bytes of Base64, and may have 5242880: make it smaller.]",
            ],
        );
        check(vec![picture("image/gif", 0)], &["[A picture was left out: it is image/gif without data.]"]);
        let many = fitted(vec![picture("image/png", 8); 25], room(Size::default(), None));
        assert_eq!(many.iter().filter(|part| matches!(part, Content::Image(_))).count(), MOST_PICTURES);
        let large = fitted(vec![picture("image/png", MOST_PICTURE); 6], room(Size::default(), None));
        assert_eq!(Size::of(&large).pictures, MOST_PICTURE_BYTES);
        assert_eq!(complaint("image/png", "A-_="), Some("it is image/png, and its data is not Base64".into()));
    }
}
