"""Made-up rows in the shape of the two medical data sets: no row describes a person."""

PIMA_HEADER = "pregnancies,glucose,blood_pressure,skin_thickness,insulin,bmi,diabetes_pedigree,age,outcome"
KAGGLE_HEADER = (
    "Pregnancies,Glucose,BloodPressure,SkinThickness,Insulin,BMI,DiabetesPedigreeFunction,Age,Outcome"
)
HEART_HEADER = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num"


def pima_lines(negative=500, positive=268):
    """Columns hold row + 0.1 * column, so that a mixed-up order shows."""
    outcomes = [0] * negative + [1] * positive
    return [
        ",".join(f"{row + column / 10:g}" for column in range(8)) + f",{outcome}"
        for row, outcome in enumerate(outcomes)
    ]


def heart_lines(negative=160, positive=137, incomplete=6):
    """Rows with a '?' in ca or thal are spread among the others; the positive are labelled 1 to 4 in turn."""
    lines = [_heart_line(k, ca=k % 4, num=0) for k in range(negative)]
    lines += [_heart_line(k, ca=k % 4, num=1 + k % 4) for k in range(positive)]
    for k in range(incomplete):
        line = _heart_line(k, ca="?", num=k % 2) if k % 2 else _heart_line(k, ca=0, num=0, thal="?")
        lines.insert(40 * k, line)
    return lines


def _heart_line(k, ca, num, thal=3):
    return f"{30 + k % 40}.0,{k % 2},{1 + k % 4},{100 + k},{200 + k},0,{k % 3},150.0,{k % 2},0.5,2,{ca},{thal},{num}"


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path
