//! Pictures in terminals that can show them: their size in cells, and the sequences that draw them.
//!
//! Holds no decoder: it gets pixels or a PNG. Invariant: a sequence holds nothing but what is made here from numbers and encoded bytes.

mod placeholders;
mod sixel;

use data_encoding::BASE64;

/// The bytes of base64 that Kitty takes in one sequence.
const KITTY_CHUNK: usize = 4096;
/// The part of the window's height that a picture takes at most.
const MOST_ROWS: u16 = 24;
const MOST_COLUMNS: u16 = 80;

/// How a terminal wants pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureProtocol {
    Kitty,
    /// Kitty's, passed on by tmux, with text in the place of the picture.
    KittyInTmux,
    Iterm,
    Sixel,
}

impl PictureProtocol {
    /// Returns the protocol of a terminal that is known by its variables; `None` for terminals that have to be asked.
    pub fn detect<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let has = |name: &str, value: &str| variable(name).is_some_and(|found| found.contains(value));
        // A multiplexer draws its own screen: pictures of the terminal around it would be painted over.
        if variable("TMUX").is_some() || variable("STY").is_some() {
            return None;
        }
        let is_kitty = variable("KITTY_WINDOW_ID").is_some()
            || has("TERM", "kitty")
            || has("TERM", "ghostty")
            || has("TERM_PROGRAM", "ghostty")
            || variable("KONSOLE_VERSION").is_some();
        let is_iterm = ["iTerm", "WezTerm", "mintty"].iter().any(|name| has("TERM_PROGRAM", name))
            || has("LC_TERMINAL", "iTerm2");
        if is_kitty { Some(Self::Kitty) } else { is_iterm.then_some(Self::Iterm) }
    }

    /// Returns the protocol from what tmux says of itself: its option `allow-passthrough` and the name of the terminal around it.
    pub fn of_tmux(option: &str, terminal: &str) -> Option<Self> {
        let passes = matches!(option, "on" | "all" | "1" | "2");
        let knows_placeholders = ["kitty", "ghostty"].iter().any(|name| terminal.contains(name));
        (passes && knows_placeholders).then_some(Self::KittyInTmux)
    }

    /// Returns the protocol from a terminal's answer to the question for its attributes (`ESC [ ? … c`).
    pub(crate) fn of_attributes(answer: &str) -> Option<Self> {
        let (_, attributes) = answer.split_once("\u{1b}[?")?;
        let (attributes, _) = attributes.split_once('c')?;
        attributes.split(';').skip(1).any(|attribute| attribute == "4").then_some(Self::Sixel)
    }
}

/// Says whether the screen shows pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PictureSupport {
    /// Pictures are shown if the terminal answers that it draws sixels.
    #[default]
    Ask,
    Known(PictureProtocol),
    Off,
}

/// A terminal that shows pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureDisplay {
    pub protocol: PictureProtocol,
    /// The width and height of a cell, in pixels.
    pub cell: (u16, u16),
    /// The size of the window, in cells.
    pub window: (u16, u16),
}

/// A picture as pixels with red, green, blue and alpha.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PicturePixels {
    pub width: u32,
    pub height: u32,
    pub rgba: Vec<u8>,
}

/// A picture that is ready to be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalPicture {
    pub(crate) rows: u16,
    pub(crate) sequence: String,
}

impl PictureDisplay {
    /// Returns the columns and rows that a picture of this size in pixels takes: at most its own size, and what fits.
    pub fn cells(&self, (width, height): (u32, u32)) -> (u16, u16) {
        let (cell_width, cell_height) = (f64::from(self.cell.0.max(1)), f64::from(self.cell.1.max(1)));
        let most_columns = f64::from(self.window.0.saturating_sub(4).clamp(1, MOST_COLUMNS));
        let most_rows = f64::from(self.window.1.saturating_sub(6).clamp(1, MOST_ROWS));
        let (columns, rows) = (f64::from(width.max(1)) / cell_width, f64::from(height.max(1)) / cell_height);
        let scale = (most_columns / columns).min(most_rows / rows).min(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the values are between one and the size of a window"
        )]
        let whole = |cells: f64, most: f64| (cells * scale).ceil().clamp(1.0, most) as u16;
        (whole(columns, most_columns), whole(rows, most_rows))
    }

    /// Returns the size in pixels to which a picture is scaled before it is drawn.
    pub fn pixels(&self, size: (u32, u32)) -> (u32, u32) {
        let (columns, rows) = self.cells(size);
        (u32::from(columns) * u32::from(self.cell.0.max(1)), u32::from(rows) * u32::from(self.cell.1.max(1)))
    }

    /// Prepares a picture, which has been scaled; `png` encodes it for protocols that want a file.
    pub fn prepare(
        &self,
        picture: &PicturePixels,
        png: impl FnOnce(&PicturePixels) -> Option<Vec<u8>>,
    ) -> Option<TerminalPicture> {
        let (columns, rows) = self.cells((picture.width, picture.height));
        let sequence = match self.protocol {
            PictureProtocol::Kitty => kitty(&png(picture)?, &format!("C=1,c={columns},r={rows}")).concat(),
            PictureProtocol::KittyInTmux => {
                let png = png(picture)?;
                let number = placeholders::number_of(&png);
                let pieces = kitty(&png, &format!("U=1,i={number},c={columns},r={rows}"));
                let mut sequence: String =
                    pieces.iter().map(|piece| placeholders::pass_through_tmux(piece)).collect();
                sequence.push_str(&placeholders::text_of(number, columns, rows));
                sequence
            }
            PictureProtocol::Iterm => iterm(&png(picture)?, columns, rows),
            PictureProtocol::Sixel => sixel::encode(picture),
        };
        Some(TerminalPicture { rows, sequence })
    }
}

/// Returns the sequences that send a PNG and place it as `place` says.
fn kitty(png: &[u8], place: &str) -> Vec<String> {
    let encoded = BASE64.encode(png);
    let chunks: Vec<&str> =
        encoded.as_bytes().chunks(KITTY_CHUNK).filter_map(|chunk| std::str::from_utf8(chunk).ok()).collect();
    let last = chunks.len().saturating_sub(1);
    let sequence = |(at, chunk): (usize, &&str)| {
        let more = u8::from(at < last);
        let head = if at == 0 { format!("a=T,f=100,q=2,{place},m={more}") } else { format!("q=2,m={more}") };
        format!("\u{1b}_G{head};{chunk}\u{1b}\\")
    };
    chunks.iter().enumerate().map(sequence).collect()
}

/// Draws a file over some cells, as iTerm2 and its relatives do.
fn iterm(png: &[u8], columns: u16, rows: u16) -> String {
    format!(
        "\u{1b}]1337;File=inline=1;size={};width={columns};height={rows};preserveAspectRatio=1:{}\u{7}",
        png.len(),
        BASE64.encode(png)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn display(protocol: PictureProtocol) -> PictureDisplay {
        PictureDisplay { protocol, cell: (10, 20), window: (100, 40) }
    }

    #[test]
    fn terminals_are_known_by_their_variables() {
        for (variables, expected) in [
            (vec![("TERM", "xterm-kitty")], Some(PictureProtocol::Kitty)),
            (vec![("TERM", "xterm-ghostty")], Some(PictureProtocol::Kitty)),
            (vec![("TERM_PROGRAM", "iTerm.app")], Some(PictureProtocol::Iterm)),
            (vec![("TERM_PROGRAM", "WezTerm")], Some(PictureProtocol::Iterm)),
            (vec![("TERM", "xterm-256color")], None),
            (vec![("TERM", "tmux-256color"), ("TMUX", "/tmp/x"), ("KITTY_WINDOW_ID", "1")], None),
        ] {
            let found = PictureProtocol::detect(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
            });
            assert_eq!(found, expected, "{variables:?}");
        }
    }

    #[test]
    fn a_terminal_says_that_it_draws_sixels() {
        for (answer, expected) in [
            ("\u{1b}]11;rgb:0/0/0\u{7}\u{1b}[>1;2;3c\u{1b}[?62;4;22c", Some(PictureProtocol::Sixel)),
            ("\u{1b}[?4;22c", None),
            ("\u{1b}[?62;22c", None),
            ("", None),
        ] {
            assert_eq!(PictureProtocol::of_attributes(answer), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_picture_keeps_its_shape_and_fits_into_the_window() {
        let display = display(PictureProtocol::Kitty);
        for (size, cells) in [
            ((100, 100), (10, 5)),
            ((8000, 400), (80, 2)),
            ((400, 8000), (3, 24)),
            ((1, 1), (1, 1)),
            ((0, 0), (1, 1)),
        ] {
            assert_eq!(display.cells(size), cells, "{size:?}");
        }
        let narrow = PictureDisplay { window: (3, 2), ..display };
        assert_eq!(narrow.cells((1000, 1000)), (1, 1));
    }

    #[test]
    fn a_long_picture_is_sent_to_kitty_in_pieces() {
        let pieces = kitty(&[7; 10_000], "C=1,c=4,r=2");
        assert_eq!(pieces.len(), 4);
        assert!(pieces[0].starts_with("\u{1b}_Ga=T,f=100,q=2,C=1,c=4,r=2,m=1;"));
        assert!(pieces[3].starts_with("\u{1b}_Gq=2,m=0;"));
        assert!(pieces.iter().all(|piece| piece.len() <= KITTY_CHUNK + 60));
    }

    #[test]
    fn inside_tmux_a_picture_is_passed_on_and_its_place_is_text() {
        let picture = PicturePixels { width: 40, height: 40, rgba: vec![0; 6400] };
        let ready = display(PictureProtocol::KittyInTmux).prepare(&picture, |_| Some(vec![7; 5000])).unwrap();
        assert_eq!(ready.rows, 2);
        assert_eq!(ready.sequence.matches("\u{1b}Ptmux;\u{1b}\u{1b}_G").count(), 2);
        assert!(ready.sequence.contains("_Ga=T,f=100,q=2,U=1,i="), "{}", ready.sequence);
        assert_eq!(ready.sequence.matches('\u{10eeee}').count(), 4 * 2);
        for (option, terminal, expected) in [
            ("1", "xterm-kitty", true),
            ("all", "xterm-ghostty", true),
            ("0", "xterm-kitty", false),
            ("off", "xterm-kitty", false),
            ("on", "xterm-256color", false),
            ("", "", false),
        ] {
            let found = PictureProtocol::of_tmux(option, terminal);
            assert_eq!(found, expected.then_some(PictureProtocol::KittyInTmux), "{option} {terminal}");
        }
    }

    #[test]
    fn iterm_gets_a_file() {
        let sequence = iterm(b"png", 4, 2);
        assert_eq!(
            sequence,
            "\u{1b}]1337;File=inline=1;size=3;width=4;height=2;preserveAspectRatio=1:cG5n\u{7}"
        );
    }
}
