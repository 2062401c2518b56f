//! Pictures as sixels: columns of six pixels, colour after colour, from a palette.

use std::fmt::Write as _;

use super::PicturePixels;

/// The steps of red, green and blue in the palette: 252 colours.
const STEPS: [u32; 3] = [6, 7, 6];
/// The rows of pixels in one line of sixels.
const BAND: usize = 6;

/// Returns the sequence that draws a picture at the cursor.
pub(super) fn encode(picture: &PicturePixels) -> String {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let colors = quantize(picture);
    let mut sequence = format!("\u{1b}P0;1q\"1;1;{width};{height}");
    for color in 0..STEPS.iter().product::<u32>() {
        let [red, green, blue] = color_of(color).map(|part| part * 100 / 255);
        let _ = write!(sequence, "#{color};2;{red};{green};{blue}");
    }
    for top in (0..height).step_by(BAND) {
        write_band(&mut sequence, &colors, width, top, height.min(top + BAND));
        sequence.push('-');
    }
    sequence.push_str("\u{1b}\\");
    sequence
}

/// Writes up to six rows of pixels: for each colour in them, where it is.
fn write_band(sequence: &mut String, colors: &[Option<u8>], width: usize, top: usize, bottom: usize) {
    let mut used: Vec<u8> =
        colors.get(top * width..bottom * width).unwrap_or_default().iter().copied().flatten().collect();
    used.sort_unstable();
    used.dedup();
    for color in used {
        let _ = write!(sequence, "#{color}");
        let column = |x: usize| {
            let bit = |y: usize| {
                let is_set = colors.get(y * width + x).copied().flatten() == Some(color);
                u8::from(is_set) << (y - top)
            };
            (top..bottom).map(bit).sum::<u8>()
        };
        let mut x = 0;
        while x < width {
            let bits = column(x);
            let run = 1 + (x + 1..width).take_while(|next| column(*next) == bits).count();
            let sign = char::from(b'?' + bits);
            match run {
                1..=3 => (0..run).for_each(|_| sequence.push(sign)),
                _ => {
                    let _ = write!(sequence, "!{run}{sign}");
                }
            }
            x += run;
        }
        sequence.push('$');
    }
}

/// Returns the colour of each pixel in the palette; `None` where the picture is transparent. Errors of rounding are passed on
/// to the pixels beside and below (Floyd and Steinberg).
fn quantize(picture: &PicturePixels) -> Vec<Option<u8>> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let mut colors = vec![None; width * height];
    // The errors for this row and the next, with a margin at both ends.
    let (mut here, mut below) = (vec![[0_i32; 3]; width + 2], vec![[0_i32; 3]; width + 2]);
    for y in 0..height {
        for x in 0..width {
            let Some([red, green, blue, alpha]) =
                picture.rgba.get((y * width + x) * 4..).and_then(|rest| rest.first_chunk::<4>())
            else {
                return colors;
            };
            if *alpha < 128 {
                continue;
            }
            let mut wanted = [i32::from(*red), i32::from(*green), i32::from(*blue)];
            for (part, error) in wanted.iter_mut().zip(here.get(x + 1).copied().unwrap_or_default()) {
                *part = (*part + error / 16).clamp(0, 255);
            }
            let index = nearest(wanted);
            if let Some(color) = colors.get_mut(y * width + x) {
                *color = u8::try_from(index).ok();
            }
            let got = color_of(index);
            for channel in 0..3 {
                let error = wanted[channel] - got[channel].cast_signed();
                if let Some(cell) = here.get_mut(x + 2) {
                    cell[channel] += error * 7;
                }
                for (at, weight) in [(x, 3), (x + 1, 5), (x + 2, 1)] {
                    if let Some(cell) = below.get_mut(at) {
                        cell[channel] += error * weight;
                    }
                }
            }
        }
        std::mem::swap(&mut here, &mut below);
        below.fill([0; 3]);
    }
    colors
}

/// Returns the index of the colour in the palette that is nearest to this one.
fn nearest(color: [i32; 3]) -> u32 {
    let step = |at: usize| (color[at].cast_unsigned() * (STEPS[at] - 1) + 127) / 255;
    (step(0) * STEPS[1] + step(1)) * STEPS[2] + step(2)
}

/// Returns red, green and blue of a colour in the palette.
fn color_of(index: u32) -> [u32; 3] {
    let steps = [index / (STEPS[1] * STEPS[2]), index / STEPS[2] % STEPS[1], index % STEPS[2]];
    [0, 1, 2].map(|at| steps[at] * 255 / (STEPS[at] - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> PicturePixels {
        let rgba = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).flat_map(|(x, y)| pixel(x, y));
        PicturePixels { width, height, rgba: rgba.collect() }
    }

    #[test]
    fn one_colour_is_one_run_in_each_band() {
        let red = picture(10, 8, |_, _| [255, 0, 0, 255]);
        let sequence = encode(&red);
        let index = nearest([255, 0, 0]);
        assert!(sequence.starts_with("\u{1b}P0;1q\"1;1;10;8#0;2;0;0;0#1;"), "{sequence}");
        assert!(sequence.ends_with(&format!("#{index}!10~$-#{index}!10B$-\u{1b}\\")), "{sequence}");
    }

    #[test]
    fn what_is_transparent_is_not_drawn() {
        let half = picture(4, 6, |x, _| if x < 2 { [0, 0, 255, 255] } else { [9, 9, 9, 0] });
        let index = nearest([0, 0, 255]);
        assert!(encode(&half).ends_with(&format!("#{index}~~??$-\u{1b}\\")));
    }

    #[test]
    fn a_grey_between_two_colours_is_mixed_from_them() {
        let grey = quantize(&picture(40, 40, |_, _| [100, 100, 100, 255]));
        let sum: u32 = grey.iter().flatten().map(|index| color_of(u32::from(*index))[0]).sum();
        let mean = sum / 1600;
        assert!((95..=105).contains(&mean), "{mean}");
    }

    #[test]
    fn a_picture_with_too_few_pixels_does_no_harm() {
        let short = PicturePixels { width: 100, height: 100, rgba: vec![1; 10] };
        assert!(encode(&short).ends_with("\u{1b}\\"));
    }
}
