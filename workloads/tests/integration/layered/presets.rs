//! Parameters and multiplications of published models.

use workloads::model::layered::LayeredModel;

use super::{execution, preset};

/// Parameters to the digit, of images as torchvision tells them, of wav2vec 2.0 with the head of
/// its CTC form and without the vector for masked places, of DETR as its repository prints them
/// with what it freezes, of T5 as Hugging Face has them, of the large LSTM 66 million (Merity et
/// al. 2017, table 2) with PyTorch's two biases. Thousand millions of multiplications (and as many
/// additions) of one sample as torchvision tells them at the resolutions here; those of attention
/// count.
#[test]
fn published_models_have_their_parameters_and_multiplications() {
    let published: &[(&str, u64, Option<f64>)] = &[
        ("vgg-16", 138_357_544, Some(15.47)),
        ("vgg-19", 143_667_240, Some(19.63)),
        ("resnet-50", 25_557_032, Some(4.09)),
        ("resnet-101", 44_549_160, Some(7.80)),
        ("resnet-152", 60_192_808, Some(11.51)),
        ("densenet-121", 7_978_856, Some(2.83)),
        ("densenet-161", 28_681_000, Some(7.73)),
        ("convnext-tiny", 28_589_128, Some(4.46)),
        ("convnext-base", 88_591_464, Some(15.36)),
        ("convnext-large", 197_767_336, Some(34.36)),
        ("efficientnet-b0", 5_288_548, Some(0.39)),
        ("efficientnet-b1", 7_794_184, Some(0.69)),
        ("efficientnet-b2", 9_109_994, Some(0.99)),
        ("efficientnet-b3", 12_233_232, Some(1.83)),
        ("efficientnet-b4", 19_341_616, Some(4.39)),
        ("efficientnet-b5", 30_389_784, Some(10.27)),
        ("efficientnet-b6", 43_040_704, Some(19.07)),
        ("efficientnet-b7", 66_347_960, Some(37.75)),
        ("efficientnet-v2-s", 21_458_488, Some(8.37)),
        ("vit-b-16", 86_567_656, Some(17.56)),
        ("vit-l-16", 304_326_632, Some(61.55)),
        ("vit-h-14", 632_045_800, Some(167.29)),
        ("wav2vec2-base", 94_395_552, None),
        ("wav2vec2-large", 315_470_496, None),
        ("detr-r50", 41_524_768 + 53_120, None),
        ("t5-small", 60_506_624, None),
        ("t5-base", 222_903_552, None),
        ("t5-large", 737_668_096, None),
        ("t5-3b", 2_851_598_336, None),
        ("t5-11b", 11_307_321_344, None),
        ("switch-base-8", 619_339_008, None),
        ("switch-base-16", 1_072_397_568, None),
        ("lstm-large", 66_034_000, None),
    ];
    for &(name, parameters, multiplications) in published {
        let model = LayeredModel::new(&preset(name), &execution(1)).unwrap();
        let billions = model.forward_flops() / 2e9;
        assert_eq!(model.parameters(), parameters, "{name}");
        if let Some(multiplications) = multiplications {
            assert!((billions - multiplications).abs() < 0.006, "{name}: {billions}");
        }
    }
}

/// Encoders with filters over 31 places and a linear layer over 1,024 labels and a blank; with the decoder of the paper in
/// its place 10.3, 30.7 and 118.8 million (Gulati et al. 2020, table 1).
#[test]
fn conformers_are_as_large_as_published() {
    for (name, millions) in
        [("conformer-small", 10.3), ("conformer-medium", 30.7), ("conformer-large", 118.8)]
    {
        let model = LayeredModel::new(&preset(name), &execution(1)).unwrap();
        let ours = model.parameters() as f64 / 1e6;
        assert!((ours / millions - 1.0).abs() < 0.15, "{name}: {ours}");
    }
}
